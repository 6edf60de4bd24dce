//! Datagrams, one at a time.

use std::io;
use std::net::{SocketAddr, UdpSocket};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) from: SocketAddr,
}

/// A buffer for one datagram of up to `SIZE` octets; what is longer is refused by the system.
pub(crate) struct Batch<const COUNT: usize, const SIZE: usize> {
    content: Box<[u8; SIZE]>,
    received: Option<(usize, SocketAddr)>,
}

impl<const COUNT: usize, const SIZE: usize> Default for Batch<COUNT, SIZE> {
    fn default() -> Self {
        Self { content: Box::new([0; SIZE]), received: None }
    }
}

impl<const COUNT: usize, const SIZE: usize> Batch<COUNT, SIZE> {
    /// Waits for a datagram.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.received = None;
        self.received = Some(socket.recv_from(&mut self.content[..])?);
        Ok(1)
    }

    pub(crate) fn get(&self, _index: usize) -> io::Result<(&[u8], Received)> {
        let (length, from) = self.received.ok_or(io::ErrorKind::NotFound)?;
        Ok((&self.content[..length], Received { from }))
    }
}

/// A socket that is bound to one address answers from it. One that is bound to all of them answers from the address that the
/// route prefers, so that each address has to be listed where a node has several.
pub(crate) fn send(socket: &UdpSocket, answer: &[u8], received: Received) -> io::Result<()> {
    socket.send_to(answer, received.from).map(drop)
}
