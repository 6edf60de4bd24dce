//! Gives up the privileges of this process for good.

use std::io::{Error, ErrorKind, Result};

/// The version of the capability structures with 64 bits.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    process: i32,
}

#[repr(C)]
#[derive(Default)]
struct CapabilityWords {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Continues as this user and group, without supplementary groups, without any capability, and without a way to get one
/// back by executing a program. Must be called before threads are started: capabilities belong to a thread.
pub fn drop_privileges(user: u32, group: u32) -> Result<()> {
    // SAFETY: takes no pointers.
    let own = unsafe { libc::geteuid() };
    if own == 0 {
        change_user(user, group)?;
    } else if own != user {
        let reason = format!("user {own} cannot become user {user}");
        return Err(Error::new(ErrorKind::PermissionDenied, reason));
    }
    // SAFETY: takes no pointers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    clear_capabilities()
}

fn change_user(user: u32, group: u32) -> Result<()> {
    // SAFETY: a list of no groups needs no pointer.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: takes no pointers.
    check(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: takes no pointers.
    check(unsafe { libc::setresuid(user, user, user) })
}

fn clear_capabilities() -> Result<()> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, process: 0 };
    let words: [CapabilityWords; 2] = Default::default();
    // SAFETY: the structures are those of the version, and are only read.
    let outcome = unsafe { libc::syscall(libc::SYS_capset, &raw const header, words.as_ptr()) };
    check(outcome as libc::c_int)
}

fn check(outcome: libc::c_int) -> Result<()> {
    if outcome == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
