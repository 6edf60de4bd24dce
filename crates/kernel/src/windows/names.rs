//! The name of the machine.

use std::io;

use windows_sys::Win32::System::SystemInformation::{ComputerNamePhysicalDnsHostname, GetComputerNameExW};

/// The longest name that DNS allows.
const LONGEST: usize = 256;

/// As kubelet finds it.
pub fn host_name() -> io::Result<String> {
    let mut units = [0; LONGEST];
    let mut length = LONGEST as u32;
    // SAFETY: the pointer and the length describe a live buffer.
    match unsafe { GetComputerNameExW(ComputerNamePhysicalDnsHostname, units.as_mut_ptr(), &raw mut length) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(String::from_utf16_lossy(&units[..(length as usize).min(LONGEST)])),
    }
}
