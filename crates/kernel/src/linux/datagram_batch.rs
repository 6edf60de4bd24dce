//! Several datagrams with one system call.

use std::io::{Error, ErrorKind, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::datagram::{Received, local_address, socket_address};

/// Room for the control message of either family.
const CONTROL: usize = 64;

/// Where the kernel writes one datagram, with the alignment that control messages require.
#[repr(C, align(8))]
struct Slot<const SIZE: usize> {
    control: [u8; CONTROL],
    name: libc::sockaddr_storage,
    piece: libc::iovec,
    content: [u8; SIZE],
}

/// Buffers for `COUNT` datagrams of up to `SIZE` octets; what is longer is cut off.
pub struct DatagramBatch<const COUNT: usize, const SIZE: usize> {
    headers: Box<[libc::mmsghdr]>,
    /// The headers point into these. They are never moved or borrowed while the kernel writes.
    slots: Box<[Slot<SIZE>]>,
    received: usize,
}

impl<const COUNT: usize, const SIZE: usize> Default for DatagramBatch<COUNT, SIZE> {
    fn default() -> Self {
        // SAFETY: all zeroes is a valid value of these structures of numbers and null pointers.
        let slots = (0..COUNT).map(|_| unsafe { MaybeUninit::<Slot<SIZE>>::zeroed().assume_init() }).collect();
        // SAFETY: as above.
        let headers = (0..COUNT).map(|_| unsafe { MaybeUninit::<libc::mmsghdr>::zeroed().assume_init() }).collect();
        Self { headers, slots, received: COUNT }
    }
}

impl<const COUNT: usize, const SIZE: usize> DatagramBatch<COUNT, SIZE> {
    /// Waits for a datagram, then takes those that have arrived. Returns their number.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize> {
        self.prepare();
        let headers = self.headers.as_mut_ptr();
        let flags = libc::MSG_WAITFORONE;
        // SAFETY: every header was prepared to point to live buffers of the lengths beside them.
        let outcome = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), headers, COUNT as libc::c_uint, flags as _, std::ptr::null_mut())
        };
        self.received = usize::try_from(outcome).unwrap_or(0);
        if outcome < 0 { Err(Error::last_os_error()) } else { Ok(self.received) }
    }

    /// A datagram of the last call, with its addresses.
    pub fn get(&self, index: usize) -> Result<(&[u8], Received)> {
        let none = || Error::new(ErrorKind::InvalidData, "a datagram has no addresses");
        let used = self.headers[..self.received].get(index).zip(self.slots.get(index));
        let (header, slot) = used.ok_or_else(none)?;
        let length = (header.msg_len as usize).min(SIZE);
        match (socket_address(&slot.name), local_address(&header.msg_hdr)) {
            (Some(from), Some(at)) => Ok((&slot.content[..length], Received { length, from, at })),
            _ => Err(none()),
        }
    }

    /// The kernel has changed the headers that it used.
    fn prepare(&mut self) {
        let used = if self.received == 0 { COUNT } else { self.received };
        for (header, slot) in self.headers.iter_mut().zip(self.slots.iter_mut()).take(used) {
            slot.piece = libc::iovec { iov_base: slot.content.as_mut_ptr().cast(), iov_len: SIZE };
            let message = &mut header.msg_hdr;
            message.msg_name = (&raw mut slot.name).cast();
            message.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            message.msg_iov = &raw mut slot.piece;
            message.msg_iovlen = 1;
            message.msg_control = slot.control.as_mut_ptr().cast();
            message.msg_controllen = CONTROL as _;
            message.msg_flags = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::enable_local_address;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn datagrams_arrive_with_their_contents_and_addresses() {
        for wildcard in ["127.0.0.1:0", "[::1]:0"] {
            let socket = UdpSocket::bind(wildcard).unwrap();
            let at = socket.local_addr().unwrap();
            enable_local_address(socket.as_fd(), at.is_ipv6()).unwrap();
            let clients: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind((at.ip(), 0)).unwrap()).collect();
            let mut batch = DatagramBatch::<4, 16>::default();
            for round in 0..3u8 {
                for (number, client) in clients.iter().enumerate() {
                    client.send_to(&[round, number as u8], at).unwrap();
                }
                assert_eq!(batch.receive(socket.as_fd()).unwrap(), 3);
                for (number, client) in clients.iter().enumerate() {
                    let (content, received) = batch.get(number).unwrap();
                    assert_eq!(content, [round, number as u8]);
                    assert_eq!((received.from, received.at.address), (client.local_addr().unwrap(), at.ip()));
                }
                assert!(batch.get(3).is_err());
            }
        }
    }

    #[test]
    fn a_full_batch_leaves_the_rest_and_long_datagrams_are_cut() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        enable_local_address(socket.as_fd(), false).unwrap();
        for _ in 0..5 {
            socket.send_to(&[7; 100], socket.local_addr().unwrap()).unwrap();
        }
        let mut batch = DatagramBatch::<4, 16>::default();
        assert_eq!(batch.receive(socket.as_fd()).unwrap(), 4);
        assert_eq!(batch.get(0).unwrap().0, [7; 16]);
        assert_eq!(batch.receive(socket.as_fd()).unwrap(), 1);
        socket.set_nonblocking(true).unwrap();
        assert!(batch.receive(socket.as_fd()).is_err());
        assert!(batch.get(0).is_err());
    }
}
