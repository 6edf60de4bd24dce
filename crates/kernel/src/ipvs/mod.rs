//! IPVS, the kernel's load balancer (`ipvsadm -ln`), over its generic netlink family.

mod codec;
pub(crate) mod fuzz;
mod server;
mod tally;
mod usage;

use std::fmt;
use std::net::SocketAddr;

use crate::error::{Error, Result};
use crate::netlink::{Header, Message, MessageWriter, Messages, Series, Socket, flags};
use crate::system::libc;

use codec::{PROTOCOL_HEADER, command, timeout};

pub use server::{Destination, Scheduling, ServerAddress, Timeouts};
pub use tally::Tally;
pub use usage::DestinationUsage;

const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// IPVS in the network namespace that the handle was opened in.
pub struct Ipvs {
    socket: Socket,
    family: u16,
    sent: usize,
}

impl Ipvs {
    /// `None` if the kernel has no IPVS.
    pub fn open() -> Result<Option<Self>> {
        let mut socket = Socket::open(libc::NETLINK_GENERIC)?;
        Ok(family_number(&mut socket)?.map(|family| Ipvs { socket, family, sent: 0 }))
    }

    /// The number of requests that this handle has sent.
    pub fn requests_sent(&self) -> usize {
        self.sent
    }

    /// The version as `ipvsadm` prints it, as three numbers.
    pub fn version(&mut self) -> Result<[u8; 3]> {
        let attempted = "reading the version of IPVS";
        let mut request = MessageWriter::default();
        request.message(self.header(), &[command::GET_INFO, 1, 0, 0], |_| {});
        let answer = self.socket.request(&mut request, attempted)?;
        let version = Messages::new(&answer).find_map(|message| codec::read_version(&message));
        version.ok_or_else(|| Error::malformed(attempted, "it has no version"))
    }

    pub fn servers(&mut self) -> Result<Vec<(ServerAddress, Scheduling)>> {
        let mut request = MessageWriter::default();
        request.message(self.header(), &[command::GET_SERVICE, 1, 0, 0], |_| {});
        self.sent += 1;
        let gather = |servers: &mut Vec<_>, message: &Message<'_>| servers.extend(codec::read_server(message));
        self.socket.dump(&mut request, "reading the virtual servers", gather)
    }

    /// Empty if there is no such server.
    pub fn destinations(&mut self, server: ServerAddress) -> Result<Vec<Destination>> {
        let mut request = MessageWriter::default();
        request.message(self.header(), &[command::GET_DESTINATION, 1, 0, 0], |writer| {
            codec::write_server(writer, server, None);
        });
        self.sent += 1;
        let gather = |found: &mut Vec<_>, message: &Message<'_>| found.extend(codec::read_destination(message));
        self.socket.dump(&mut request, &format!("reading the destinations of {server}"), gather)
    }

    /// Performs all requests, and returns the indices of those that had no effect because the state was already as
    /// requested.
    pub fn perform(&mut self, requests: Requests) -> Result<Vec<usize>> {
        let mut series = Series::default();
        for request in requests.0 {
            request.write(self.header(), &mut series);
        }
        self.sent += series.len();
        self.socket.perform(series, "a change of virtual servers")
    }

    pub fn timeouts(&mut self) -> Result<Timeouts> {
        let mut request = MessageWriter::default();
        request.message(self.header(), &[command::GET_CONFIG, 1, 0, 0], |_| {});
        let attempted = "reading the timeouts of IPVS";
        let answer = self.socket.request(&mut request, attempted)?;
        let timeouts = Messages::new(&answer).map(|message| codec::read_timeouts(&message)).next();
        timeouts.ok_or_else(|| Error::malformed(attempted, "it is empty"))
    }

    pub fn set_timeouts(&mut self, timeouts: Timeouts) -> Result<()> {
        let mut request = MessageWriter::default();
        let each = [(timeout::TCP, timeouts.tcp), (timeout::TCP_FIN, timeouts.tcp_fin), (timeout::UDP, timeouts.udp)];
        request.message(self.header(), &[command::SET_CONFIG, 1, 0, 0], |writer| {
            each.iter().for_each(|(kind, seconds)| writer.attribute(*kind, &seconds.to_ne_bytes()));
        });
        self.socket.request(&mut request, "setting the timeouts of IPVS").map(drop)
    }

    fn header(&self) -> Header {
        Header { kind: self.family, flags: flags::REQUEST }
    }
}

/// Changes to virtual servers, in order.
#[derive(Default)]
pub struct Requests(Vec<Request>);

enum Request {
    AddServer(ServerAddress, Scheduling),
    SetServer(ServerAddress, Scheduling),
    DeleteServer(ServerAddress),
    AddDestination(ServerAddress, SocketAddr, u32),
    SetDestination(ServerAddress, SocketAddr, u32),
    DeleteDestination(ServerAddress, SocketAddr),
}

impl Requests {
    /// No error if the server exists already, whatever its scheduling.
    pub fn add_server(&mut self, server: ServerAddress, scheduling: Scheduling) {
        self.0.push(Request::AddServer(server, scheduling));
    }

    /// Connections and destinations are kept.
    pub fn set_server(&mut self, server: ServerAddress, scheduling: Scheduling) {
        self.0.push(Request::SetServer(server, scheduling));
    }

    /// Its destinations are deleted too.
    pub fn delete_server(&mut self, server: ServerAddress) {
        self.0.push(Request::DeleteServer(server));
    }

    /// No error if the destination exists already, whatever its weight.
    pub fn add_destination(&mut self, server: ServerAddress, endpoint: SocketAddr, weight: u32) {
        self.0.push(Request::AddDestination(server, endpoint, weight));
    }

    /// A destination of weight 0 keeps its connections and gets no new ones.
    pub fn set_destination(&mut self, server: ServerAddress, endpoint: SocketAddr, weight: u32) {
        self.0.push(Request::SetDestination(server, endpoint, weight));
    }

    /// Its connections are dropped.
    pub fn delete_destination(&mut self, server: ServerAddress, endpoint: SocketAddr) {
        self.0.push(Request::DeleteDestination(server, endpoint));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// IPVS returns ESRCH for a server that does not exist.
const GONE: &[i32] = &[libc::ESRCH, libc::ENOENT];
const THERE: &[i32] = &[libc::EEXIST];

impl Request {
    fn write(self, header: Header, series: &mut Series) {
        let what = self.to_string();
        let mut push = |command: u8, forgiven, write: &dyn Fn(&mut MessageWriter)| {
            series.push(what.clone(), forgiven, header, &[command, 1, 0, 0], write);
        };
        match &self {
            Self::AddServer(server, scheduling) => {
                push(command::NEW_SERVICE, THERE, &|writer| codec::write_server(writer, *server, Some(scheduling)));
            }
            Self::SetServer(server, scheduling) => {
                push(command::SET_SERVICE, &[], &|writer| codec::write_server(writer, *server, Some(scheduling)));
            }
            Self::DeleteServer(server) => {
                push(command::DELETE_SERVICE, GONE, &|writer| codec::write_server(writer, *server, None));
            }
            Self::AddDestination(server, endpoint, weight) => push(command::NEW_DESTINATION, THERE, &|writer| {
                codec::write_destination(writer, *server, *endpoint, Some(*weight));
            }),
            Self::SetDestination(server, endpoint, weight) => push(command::SET_DESTINATION, &[], &|writer| {
                codec::write_destination(writer, *server, *endpoint, Some(*weight));
            }),
            Self::DeleteDestination(server, endpoint) => push(command::DELETE_DESTINATION, GONE, &|writer| {
                codec::write_destination(writer, *server, *endpoint, None);
            }),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddServer(server, scheduling) => {
                write!(formatter, "add virtual server {server} with scheduler {}", scheduling.scheduler)
            }
            Self::SetServer(server, scheduling) => {
                write!(formatter, "change virtual server {server} to scheduler {}", scheduling.scheduler)
            }
            Self::DeleteServer(server) => write!(formatter, "delete virtual server {server}"),
            Self::AddDestination(server, endpoint, _) => write!(formatter, "add destination {endpoint} to {server}"),
            Self::SetDestination(server, endpoint, weight) => {
                write!(formatter, "set destination {endpoint} of {server} to weight {weight}")
            }
            Self::DeleteDestination(server, endpoint) => {
                write!(formatter, "delete destination {endpoint} of {server}")
            }
        }
    }
}

/// The number of the generic netlink family of IPVS; `None` if the kernel has no IPVS.
fn family_number(socket: &mut Socket) -> Result<Option<u16>> {
    let attempted = "looking up the netlink family of IPVS";
    let mut request = MessageWriter::default();
    let header = Header { kind: CONTROLLER, flags: flags::REQUEST };
    request.message(header, &[GET_FAMILY, 1, 0, 0], |writer| writer.string(FAMILY_NAME, "IPVS"));
    let answer = match socket.request(&mut request, attempted) {
        Err(error) if error.is_absent() => return Ok(None),
        answer => answer?,
    };
    let number = Messages::new(&answer).find_map(|message| {
        let value = message.attributes(PROTOCOL_HEADER).first(FAMILY_ID)?.value;
        Some(u16::from_ne_bytes(*value.first_chunk()?))
    });
    number.map(Some).ok_or_else(|| Error::malformed(attempted, "it has no number"))
}
