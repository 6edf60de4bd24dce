//! Windows has no capabilities of Linux's kind.

use std::io::Result;

pub fn drop_privileges(_user: u32, _group: u32) -> Result<()> {
    Err(super::only_linux())
}
