//! The addresses of the interfaces, and changes of them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{ERROR_BUFFER_OVERFLOW, ERROR_NO_DATA};
use windows_sys::Win32::NetworkManagement::IpHelper::{
    GAA_FLAG_SKIP_ANYCAST, GAA_FLAG_SKIP_DNS_SERVER, GAA_FLAG_SKIP_MULTICAST, GetAdaptersAddresses,
    IP_ADAPTER_ADDRESSES_LH, IP_ADAPTER_UNICAST_ADDRESS_LH,
};
use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6, AF_UNSPEC, SOCKADDR, SOCKADDR_IN, SOCKADDR_IN6};
use windows_sys::core::PWSTR;

use crate::error::{Error, Result};
use crate::interface_address::InterfaceAddress;

/// How often the addresses are compared. Windows has notifications, too; a look costs less than a millisecond.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The list may grow between two calls.
const ATTEMPTS: usize = 8;

/// An interface, its name, its hardware address and its addresses.
pub struct Adapter {
    pub interface: u32,
    pub name: String,
    pub hardware_address: Vec<u8>,
    pub addresses: Vec<(IpAddr, u8)>,
}

/// All addresses of this machine.
pub fn interface_addresses() -> Result<Vec<InterfaceAddress>> {
    let of = |adapter: Adapter| {
        let Adapter { interface, name, addresses, .. } = adapter;
        let each =
            move |(address, prefix_length)| InterfaceAddress { interface, name: name.clone(), address, prefix_length };
        addresses.into_iter().map(each)
    };
    Ok(adapters()?.into_iter().flat_map(of).collect())
}

/// All interfaces of this machine.
pub fn adapters() -> Result<Vec<Adapter>> {
    let attempted = "reading the addresses of the interfaces";
    let mut words = vec![0_u64; 4096];
    for _ in 0..ATTEMPTS {
        let mut bytes = (words.len() * 8) as u32;
        let first = words.as_mut_ptr().cast::<IP_ADAPTER_ADDRESSES_LH>();
        let flags = GAA_FLAG_SKIP_ANYCAST | GAA_FLAG_SKIP_MULTICAST | GAA_FLAG_SKIP_DNS_SERVER;
        // SAFETY: the buffer is aligned for the structures, and has the length that is given.
        match unsafe { GetAdaptersAddresses(AF_UNSPEC.into(), flags, std::ptr::null(), first, &raw mut bytes) } {
            0 => return Ok(unsafe { list(first) }),
            ERROR_NO_DATA => return Ok(Vec::new()),
            ERROR_BUFFER_OVERFLOW => words.resize(bytes as usize / 8 + 1024, 0),
            code => return Err(Error::io(attempted, io::Error::from_raw_os_error(code.cast_signed()))),
        }
    }
    Err(Error::io(attempted, io::Error::other("the list of interfaces changes with every look")))
}

/// # Safety
///
/// The pointer leads to a list that Windows has filled in.
unsafe fn list(mut next: *const IP_ADAPTER_ADDRESSES_LH) -> Vec<Adapter> {
    let mut found = Vec::new();
    // SAFETY: every entry of the list is complete, or its pointer is null.
    while let Some(adapter) = unsafe { next.as_ref() } {
        let length = (adapter.PhysicalAddressLength as usize).min(adapter.PhysicalAddress.len());
        found.push(Adapter {
            // SAFETY: both views of this union are numbers; the index is in the second half.
            interface: unsafe { adapter.Anonymous1.Anonymous.IfIndex },
            name: unsafe { text(adapter.FriendlyName) },
            hardware_address: adapter.PhysicalAddress[..length].to_vec(),
            addresses: unsafe { addresses(adapter.FirstUnicastAddress) },
        });
        next = adapter.Next;
    }
    found
}

/// # Safety
///
/// As for [`list`].
unsafe fn addresses(mut next: *const IP_ADAPTER_UNICAST_ADDRESS_LH) -> Vec<(IpAddr, u8)> {
    let mut found = Vec::new();
    // SAFETY: every entry of the list is complete, or its pointer is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        found.extend(unsafe { address(entry.Address.lpSockaddr) }.map(|address| (address, entry.OnLinkPrefixLength)));
        next = entry.Next;
    }
    found
}

/// # Safety
///
/// The pointer is null, or leads to a socket address of the size that its family has.
unsafe fn address(pointer: *const SOCKADDR) -> Option<IpAddr> {
    // SAFETY: the caller's promise, and the family decides which structure is read.
    unsafe {
        match pointer.as_ref()?.sa_family {
            AF_INET => {
                let octets = (*pointer.cast::<SOCKADDR_IN>()).sin_addr.S_un.S_addr.to_ne_bytes();
                Some(Ipv4Addr::from(octets).into())
            }
            AF_INET6 => Some(Ipv6Addr::from((*pointer.cast::<SOCKADDR_IN6>()).sin6_addr.u.Byte).into()),
            _ => None,
        }
    }
}

/// # Safety
///
/// The pointer is null, or leads to a text with its terminating zero.
pub(super) unsafe fn text(pointer: PWSTR) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise: the text ends at its zero.
    let units = unsafe {
        let length = (0..).take_while(|index| *pointer.add(*index) != 0).count();
        std::slice::from_raw_parts(pointer, length)
    };
    String::from_utf16_lossy(units)
}

/// Notices added and deleted addresses.
pub struct AddressMonitor {
    known: Vec<InterfaceAddress>,
}

impl AddressMonitor {
    pub fn open() -> Result<Self> {
        Ok(Self { known: sorted()? })
    }

    /// Waits until addresses change; false after the timeout.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let start = Instant::now();
        loop {
            let now = sorted()?;
            if now != self.known {
                self.known = now;
                return Ok(true);
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            std::thread::sleep(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)));
        }
    }
}

fn sorted() -> Result<Vec<InterfaceAddress>> {
    let mut addresses = interface_addresses()?;
    addresses.sort();
    Ok(addresses)
}
