//! Windows has no sysctls.

use super::only_linux;
use crate::error::{Error, Result};

pub fn read(_name: &str) -> Result<Option<String>> {
    Ok(None)
}

pub fn set(name: &str, value: &str) -> Result<bool> {
    Err(Error::io(format!("setting {name} to {value}"), only_linux()))
}

/// Every Windows with HNS has an IPv6 stack.
pub fn has_ipv6() -> bool {
    true
}
