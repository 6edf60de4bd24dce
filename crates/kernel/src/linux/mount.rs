//! Bind mounts a file over another one, for this process and its children.

use std::ffi::CString;
use std::io::{Error, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// From now on this thread and its children see `content` at the path `shown_at`; other processes do not. Without
/// privileges this needs a user namespace, for which the process must be single-threaded.
pub fn bind_mount(content: &Path, shown_at: &Path) -> Result<()> {
    enter_new_mount_namespace()?;
    // Mounts must not propagate to other namespaces.
    mount(None, Path::new("/"), libc::MS_REC | libc::MS_PRIVATE)?;
    mount(Some(content), shown_at, libc::MS_BIND)
}

fn enter_new_mount_namespace() -> Result<()> {
    match unshare(libc::CLONE_NEWNS) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => enter_as_ordinary_user(),
        result => result,
    }
}

/// Keeps the user id; in the new namespace it may mount.
fn enter_as_ordinary_user() -> Result<()> {
    // SAFETY: these calls take no arguments and cannot fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    std::fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

fn unshare(what: libc::c_int) -> Result<()> {
    // SAFETY: takes no pointers, and affects only this thread.
    match unsafe { libc::unshare(what) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

fn mount(from: Option<&Path>, at: &Path, flags: libc::c_ulong) -> Result<()> {
    let from = from.map(|path| CString::new(path.as_os_str().as_bytes())).transpose()?;
    let at = CString::new(at.as_os_str().as_bytes())?;
    let source = from.as_ref().map_or(ptr::null(), |from| from.as_ptr());
    // SAFETY: both strings live until the call returns; the other pointers may be null.
    match unsafe { libc::mount(source, at.as_ptr(), ptr::null(), flags, ptr::null()) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}
