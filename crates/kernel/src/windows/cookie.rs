//! Windows has no network namespaces of Linux's kind.

use super::only_linux;
use crate::error::{Error, Result};

pub fn network_namespace_cookie() -> Result<u64> {
    Err(Error::io("reading the cookie of the network namespace", only_linux()))
}
