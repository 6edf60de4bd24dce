//! The legacy tables of iptables. The kernel sends no notifications of their changes, but it counts their entries.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use portolan_model::Family;

use crate::error::{Error, Result};

/// `IPT_SO_GET_INFO` and `IP6T_SO_GET_INFO`.
const GET_INFO: libc::c_int = 64;
const HOOKS: usize = 5;

/// `struct ipt_getinfo`, the same in both families.
#[repr(C)]
#[derive(Default)]
struct Info {
    name: [u8; 32],
    valid_hooks: u32,
    hook_entry: [u32; HOOKS],
    underflow: [u32; HOOKS],
    entries: u32,
    size: u32,
}

/// The number of entries of the table in the network namespace of this thread: one for each rule, two for each chain.
/// 0 if there is no such table; the query does not create it.
pub fn entries(family: Family, table: &str) -> Result<u32> {
    if !exists(family, table) {
        return Ok(0);
    }
    read_info(family, table)
        .map(|info| info.entries)
        .map_err(|error| Error::io(format!("reading the size of the legacy table {table}"), error))
}

fn exists(family: Family, table: &str) -> bool {
    let file = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    fs::read_to_string(file).is_ok_and(|names| names.lines().any(|name| name == table))
}

fn read_info(family: Family, table: &str) -> io::Result<Info> {
    let (domain, level) = match family {
        Family::V4 => (libc::AF_INET, libc::IPPROTO_IP),
        Family::V6 => (libc::AF_INET6, libc::IPPROTO_IPV6),
    };
    let socket = raw_socket(domain)?;
    let mut info = Info::default();
    // The last byte stays the terminating zero.
    info.name[..31].iter_mut().zip(table.bytes()).for_each(|(to, from)| *to = from);
    let mut length = size_of::<Info>() as libc::socklen_t;
    // SAFETY: the pointers refer to live values, and the length is that of the structure.
    let outcome =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, GET_INFO, (&raw mut info).cast(), &raw mut length) };
    if outcome == 0 { Ok(info) } else { Err(io::Error::last_os_error()) }
}

fn raw_socket(domain: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call has no pointers.
    match unsafe { libc::socket(domain, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW) } {
        descriptor if descriptor < 0 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        descriptor => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::namespace::enter_new_network_namespace;

    fn run(words: &str) {
        let mut words = words.split(' ');
        let mut command = Command::new(words.next().unwrap());
        assert!(command.args(words).status().unwrap().success());
    }

    /// Needs root, like all tests that change the network.
    #[test]
    fn a_rule_is_one_entry_and_a_chain_two() {
        enter_new_network_namespace().unwrap();
        assert_eq!(entries(Family::V4, "nat").unwrap(), 0);
        run("iptables-legacy -t nat -L");
        let before = entries(Family::V4, "nat").unwrap();
        run("iptables-legacy -t nat -N X");
        run("iptables-legacy -t nat -A X -j RETURN");
        assert_eq!(entries(Family::V4, "nat").unwrap(), before + 3);
        assert_eq!(entries(Family::V6, "nat").unwrap(), 0);
        run("ip6tables-legacy -t filter -A INPUT -j ACCEPT");
        assert!(entries(Family::V6, "filter").unwrap() > 0);
    }
}
