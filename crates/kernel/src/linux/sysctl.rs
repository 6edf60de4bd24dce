//! Sysctls of the network namespace of the calling thread.

use std::fs;
use std::path::PathBuf;

use crate::error::{Error, Result};

/// The value of a sysctl, such as `net/ipv4/ip_forward`; `None` if the kernel does not have it.
pub fn read(name: &str) -> Result<Option<String>> {
    match fs::read_to_string(path(name)) {
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("reading the sysctl {name}"), error)),
    }
}

/// Sets a sysctl unless it has that value already, which needs no privileges; false if nothing was written.
pub fn set(name: &str, value: &str) -> Result<bool> {
    if read(name)?.as_deref() == Some(value) {
        return Ok(false);
    }
    let attempted = || format!("setting {name} to {value}");
    fs::write(path(name), value).map_err(|error| Error::io(attempted(), error))?;
    Ok(true)
}

/// Whether the kernel has an IPv6 stack. A kernel that was booted with `ipv6.disable=1` has none.
pub fn has_ipv6() -> bool {
    path("net/ipv6/conf").is_dir()
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name)
}
