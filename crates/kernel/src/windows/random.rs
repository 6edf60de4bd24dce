//! Cryptographic random bytes.

use std::io;

use windows_sys::Win32::Security::Cryptography::{BCRYPT_USE_SYSTEM_PREFERRED_RNG, BCryptGenRandom};

pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    // SAFETY: the pointer and the length describe a live buffer; without a provider, the system's own is used.
    let status =
        unsafe { BCryptGenRandom(std::ptr::null_mut(), bytes.as_mut_ptr(), N as u32, BCRYPT_USE_SYSTEM_PREFERRED_RNG) };
    if status == 0 { Ok(bytes) } else { Err(io::Error::other(format!("BCryptGenRandom: 0x{status:08x}"))) }
}
