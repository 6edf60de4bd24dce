//! Network interfaces by name: existence, creation, deletion, and addresses.

use std::net::IpAddr;

use crate::error::{Error, Result};
use crate::netlink::{Header, MessageWriter, Messages, Series, Socket, flags};
use crate::system::libc;

/// The length of `struct ifinfomsg`.
const PROTOCOL_HEADER: usize = 16;
const NAME: u16 = 3;
const LINK_INFO: u16 = 18;
const INFO_KIND: u16 = 1;

const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
/// `IFA_F_NODAD`: no other machine has the address, so that duplicate address detection is not needed.
const WITHOUT_DETECTION: u8 = 2;

/// Whether the network namespace of this thread has an interface of that name.
pub fn link_exists(name: &str) -> Result<bool> {
    link_number(name).map(|number| number.is_some())
}

/// The index of the interface; `None` if there is none of that name.
pub fn link_number(name: &str) -> Result<Option<u32>> {
    let attempted = format!("reading the interface {name}");
    let answer = match request(libc::RTM_GETLINK, 0, name, &attempted, |_| {}) {
        Err(error) if is_missing(&error) => return Ok(None),
        answer => answer?,
    };
    let number =
        Messages::new(&answer).find_map(|message| Some(u32::from_ne_bytes(*message.body.get(4..)?.first_chunk()?)));
    number.map(Some).ok_or_else(|| Error::malformed(attempted, "it has no number"))
}

/// Creates a dummy interface, to hold addresses; false if one of that name exists.
pub fn add_dummy_link(name: &str) -> Result<bool> {
    let attempted = format!("creating the interface {name} of type dummy");
    let how = flags::CREATE | flags::EXCLUSIVE;
    let answer = request(libc::RTM_NEWLINK, how, name, &attempted, |writer| {
        writer.nest(LINK_INFO, |writer| writer.string(INFO_KIND, "dummy"));
    });
    match answer {
        Err(error) if error.errno() == Some(libc::EEXIST) => Ok(false),
        answer => answer.map(|_| true),
    }
}

/// Deletes the interface; false if there is none.
pub fn delete_link(name: &str) -> Result<bool> {
    match request(libc::RTM_DELLINK, 0, name, &format!("the deletion of the interface {name}"), |_| {}) {
        Err(error) if is_missing(&error) => Ok(false),
        answer => answer.map(|_| true),
    }
}

/// Changes to the addresses of one interface. Adding what exists and deleting what does not is no error.
pub struct AddressChanges {
    link: u32,
    series: Series,
}

impl AddressChanges {
    pub fn of_link(link: u32) -> Self {
        Self { link, series: Series::default() }
    }

    /// Adds the address with a full-length prefix, without its network.
    pub fn add(&mut self, address: IpAddr) {
        self.push(libc::RTM_NEWADDR, flags::CREATE | flags::EXCLUSIVE, "add", &[libc::EEXIST], address);
    }

    pub fn delete(&mut self, address: IpAddr) {
        self.push(libc::RTM_DELADDR, 0, "delete", &[libc::EADDRNOTAVAIL], address);
    }

    pub fn len(&self) -> usize {
        self.series.len()
    }

    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    pub fn perform(self) -> Result<()> {
        let mut socket = Socket::open(libc::NETLINK_ROUTE)?;
        socket.perform(self.series, "a change of addresses").map(drop)
    }

    fn push(&mut self, kind: u16, how: u16, verb: &str, forgiven: &'static [i32], address: IpAddr) {
        let (family, length, octets) = match address {
            IpAddr::V4(address) => (libc::AF_INET, 32, address.octets().to_vec()),
            IpAddr::V6(address) => (libc::AF_INET6, 128, address.octets().to_vec()),
        };
        let family = u8::try_from(family).expect("address families are small numbers");
        let without_detection = if address.is_ipv6() { WITHOUT_DETECTION } else { 0 };
        let mut fixed = vec![family, length, without_detection, libc::RT_SCOPE_UNIVERSE];
        fixed.extend(self.link.to_ne_bytes());
        let header = Header { kind, flags: flags::REQUEST | how };
        self.series.push(format!("{verb} address {address}"), forgiven, header, &fixed, |writer| {
            writer.attribute(LOCAL, &octets);
            writer.attribute(ADDRESS, &octets);
        });
    }
}

fn request(
    kind: u16,
    how: u16,
    name: &str,
    attempted: &str,
    write: impl FnOnce(&mut MessageWriter),
) -> Result<Vec<u8>> {
    let mut socket = Socket::open(libc::NETLINK_ROUTE)?;
    let mut request = MessageWriter::default();
    request.message(Header { kind, flags: flags::REQUEST | how }, &[0; PROTOCOL_HEADER], |writer| {
        writer.string(NAME, name);
        write(writer);
    });
    socket.request(&mut request, attempted)
}

fn is_missing(error: &Error) -> bool {
    error.errno() == Some(libc::ENODEV)
}
