//! Several datagrams at once, and answers from the address that a query was sent to.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use portolan_kernel::datagram;
pub(crate) use portolan_kernel::datagram::Received;
use portolan_kernel::datagram_batch::DatagramBatch;

/// Buffers for `COUNT` datagrams of up to `SIZE` octets; what is longer is cut off.
#[derive(Default)]
pub(crate) struct Batch<const COUNT: usize, const SIZE: usize>(DatagramBatch<COUNT, SIZE>);

impl<const COUNT: usize, const SIZE: usize> Batch<COUNT, SIZE> {
    /// Waits for a datagram, then takes those that have arrived. Returns their number.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.0.receive(socket.as_fd())
    }

    /// A datagram of the last call, with its addresses.
    pub(crate) fn get(&self, index: usize) -> io::Result<(&[u8], Received)> {
        self.0.get(index)
    }
}

/// The answer is sent from the address that the query was sent to.
pub(crate) fn send(socket: &UdpSocket, answer: &[u8], received: Received) -> io::Result<()> {
    datagram::send(socket.as_fd(), answer, received.from, received.at)
}
