//! What only some systems know about files.

use std::fs::{File, Metadata};
use std::io;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::fs::MetadataExt;
use std::os::windows::io::FromRawHandle;
use std::path::Path;

use windows_sys::Win32::Foundation::{GENERIC_WRITE, INVALID_HANDLE_VALUE, LocalFree};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::SECURITY_ATTRIBUTES;
use windows_sys::Win32::Storage::FileSystem::{CREATE_ALWAYS, CreateFileW, FILE_ATTRIBUTE_NORMAL, FILE_SHARE_READ};
use windows_sys::core::w;

use super::fd::OwnedFd;

/// Windows gives the number of a file only for one that is open; its times and its size are the next best.
pub fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.creation_time(), metadata.last_write_time() ^ metadata.file_size())
}

pub fn symlink(_original: impl AsRef<Path>, _link: impl AsRef<Path>) -> io::Result<()> {
    Err(super::only_linux())
}

pub(crate) fn of_descriptor(_descriptor: OwnedFd) -> io::Result<File> {
    Err(super::only_linux())
}

/// A new file that the system and administrators can open, and no other user, whatever its folder allows. One of this name is
/// removed first, because its permissions would stay.
pub fn create_for_administrators(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let name: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let mut descriptor = std::ptr::null_mut();
    // SAFETY: the texts end with zero, and the pointer is to a live value.
    let outcome = unsafe {
        ConvertStringSecurityDescriptorToSecurityDescriptorW(
            w!("D:P(A;;FA;;;SY)(A;;FA;;;BA)"),
            SDDL_REVISION_1,
            &raw mut descriptor,
            std::ptr::null_mut(),
        )
    };
    if outcome == 0 {
        return Err(io::Error::last_os_error());
    }
    let length = size_of::<SECURITY_ATTRIBUTES>() as u32;
    let security = SECURITY_ATTRIBUTES { nLength: length, lpSecurityDescriptor: descriptor, bInheritHandle: 0 };
    // SAFETY: the name ends with zero; the descriptor lives until the call returns.
    let (handle, error) = unsafe {
        let (disposition, no_template) = (CREATE_ALWAYS, std::ptr::null_mut());
        let (access, share, flags) = (GENERIC_WRITE, FILE_SHARE_READ, FILE_ATTRIBUTE_NORMAL);
        let handle = CreateFileW(name.as_ptr(), access, share, &raw const security, disposition, flags, no_template);
        let error = io::Error::last_os_error();
        LocalFree(descriptor);
        (handle, error)
    };
    match handle {
        INVALID_HANDLE_VALUE => Err(error),
        // SAFETY: the handle was opened just now, and nothing else owns it.
        handle => Ok(unsafe { File::from_raw_handle(handle.cast()) }),
    }
}
