//! No relay: Windows has no packet rules that would lead connections to it. Questions about the mode that has one are answered
//! all the same, so that its types exist.

use std::io;
use std::net::SocketAddr;

use portolan_kernel::fd::OwnedFd;
use portolan_model::{Family, Protocol};

use crate::{Carried, Counters, EndpointCounters, Error, Limits, Resets, Targets};

/// The name, protocol and family of a listener, and its socket.
pub type NamedSocket = (String, Protocol, Family, OwnedFd);

/// Without a value: none is ever started.
pub enum Relay {}

fn impossible() -> Error {
    let reason = "the relay needs epoll, splice and packet rules of Linux";
    Error::io("relaying connections", io::Error::new(io::ErrorKind::Unsupported, reason))
}

pub fn send_sockets<Stream>(_stream: &Stream, _sockets: &[NamedSocket]) -> Result<(), Error> {
    Err(impossible())
}

pub fn receive_sockets<Stream>(_stream: &Stream) -> Result<Vec<NamedSocket>, Error> {
    Err(impossible())
}

impl Relay {
    pub fn start(_limits: Limits) -> Result<Self, Error> {
        Err(impossible())
    }

    pub fn listen(&self, _name: &str, _protocol: Protocol, _family: Family) -> Result<u16, Error> {
        match *self {}
    }

    pub fn listen_at(&self, _name: &str, _protocol: Protocol, _family: Family, _port: u16) -> Result<u16, Error> {
        match *self {}
    }

    pub fn adopt(&self, _name: &str, _: Protocol, _: Family, _socket: OwnedFd) -> Result<u16, Error> {
        match *self {}
    }

    pub fn set_targets(&self, _name: &str, _targets: Targets) -> Result<(), Error> {
        match *self {}
    }

    pub fn reset(&self, _wanted: Resets) -> Result<usize, Error> {
        match *self {}
    }

    pub fn close(&self, _name: &str) -> Result<(), Error> {
        match *self {}
    }

    pub fn sockets(&self) -> Result<Vec<NamedSocket>, Error> {
        match *self {}
    }

    pub fn stop_accepting(&self) -> Result<(), Error> {
        match *self {}
    }

    pub fn active(&self) -> usize {
        match *self {}
    }

    pub fn counters(&self) -> Vec<(String, Counters)> {
        match *self {}
    }

    pub fn endpoint_counters(&self) -> Vec<(String, SocketAddr, EndpointCounters)> {
        match *self {}
    }

    pub fn connections(&self, _most: usize) -> Result<Vec<Carried>, Error> {
        match *self {}
    }
}
