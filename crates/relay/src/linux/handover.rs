//! Hands listening sockets over to another process, so that clients do not notice a restart.
//!
//! A batch is a header of two numbers (the number of sockets and the length of their description) with the
//! descriptors as ancillary data, followed by the description: for each socket its protocol, its family, the length
//! of its name, and the name. An empty batch is the end.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use portolan_model::{Family, Protocol};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::error::Error;

/// A listening socket and its properties.
pub type NamedSocket = (String, Protocol, Family, OwnedFd);

/// The kernel accepts at most 253 descriptors per message.
const BATCH: usize = 250;
const HEADER: usize = 8;

/// More than any batch needs; a longer one does not come from Portolan.
const LONGEST_DESCRIPTION: usize = 16 << 20;

/// Sends all sockets; the other side calls [`receive_sockets`].
pub fn send_sockets(stream: &UnixStream, sockets: &[NamedSocket]) -> Result<(), Error> {
    for batch in sockets.chunks(BATCH) {
        send_batch(stream, batch)?;
    }
    send_batch(stream, &[])
}

/// Receives all sockets that the other side sends with [`send_sockets`].
pub fn receive_sockets(stream: &UnixStream) -> Result<Vec<NamedSocket>, Error> {
    let mut sockets = Vec::new();
    loop {
        let batch = receive_batch(stream)?;
        if batch.is_empty() {
            return Ok(sockets);
        }
        sockets.extend(batch);
    }
}

fn send_batch(stream: &UnixStream, batch: &[NamedSocket]) -> Result<(), Error> {
    let description = describe(batch)?;
    let descriptors: Vec<BorrowedFd<'_>> = batch.iter().map(|(_, _, _, socket)| socket.as_fd()).collect();
    let header = header(batch.len(), description.len());
    let sent = send_header(stream, &header, &descriptors)?;
    // Descriptors are attached to the first byte; the rest is an ordinary stream.
    let mut stream = stream;
    let outcome = stream.write_all(&header[sent..]).and_then(|()| stream.write_all(&description));
    outcome.map_err(|source| Error::io("describing listening sockets", source))
}

fn send_header(stream: &UnixStream, header: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<usize, Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(descriptors));
        debug_assert!(fits, "a batch is as large as the space for it");
    }
    let sent = sendmsg(stream, &[IoSlice::new(header)], &mut control, SendFlags::NOSIGNAL);
    sent.map_err(|source| Error::io("sending listening sockets", source))
}

fn receive_batch(stream: &UnixStream) -> Result<Vec<NamedSocket>, Error> {
    let mut header = [0; HEADER];
    let mut descriptors = Vec::new();
    let received = receive_header(stream, &mut header, &mut descriptors)?;
    let mut stream = stream;
    let failed = |source| Error::io("receiving the description of listening sockets", source);
    stream.read_exact(&mut header[received..]).map_err(failed)?;
    let (count, length) = header_numbers(header);
    if count != descriptors.len() || length > LONGEST_DESCRIPTION {
        return Err(Error::Malformed { reason: "the header does not match the descriptors" });
    }
    let mut description = vec![0; length];
    stream.read_exact(&mut description).map_err(failed)?;
    assemble(&description, descriptors)
}

fn receive_header(stream: &UnixStream, header: &mut [u8], into: &mut Vec<OwnedFd>) -> Result<usize, Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(stream, &mut [IoSliceMut::new(header)], &mut control, RecvFlags::CMSG_CLOEXEC)
        .map_err(|source| Error::io("receiving listening sockets", source))?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            into.extend(descriptors);
        }
    }
    match received.bytes {
        0 => Err(Error::Malformed { reason: "the stream ended before the last batch" }),
        _ if received.flags.contains(ReturnFlags::CTRUNC) => {
            Err(Error::Malformed { reason: "descriptors were lost, perhaps because too many are open" })
        }
        bytes => Ok(bytes),
    }
}

fn header(count: usize, length: usize) -> [u8; HEADER] {
    let numbers = (count as u64) << 32 | length as u64;
    numbers.to_be_bytes()
}

fn header_numbers(header: [u8; HEADER]) -> (usize, usize) {
    let numbers = u64::from_be_bytes(header);
    ((numbers >> 32) as usize, (numbers & 0xffff_ffff) as usize)
}

fn describe(batch: &[NamedSocket]) -> Result<Vec<u8>, Error> {
    let mut description = Vec::new();
    for (name, protocol, family, _) in batch {
        let length = u16::try_from(name.len()).map_err(|_| Error::Malformed { reason: "a name is too long" })?;
        description.push(u8::from(*protocol == Protocol::Udp));
        description.push(u8::from(*family == Family::V6));
        description.extend(length.to_be_bytes());
        description.extend(name.as_bytes());
    }
    Ok(description)
}

fn assemble(mut description: &[u8], descriptors: Vec<OwnedFd>) -> Result<Vec<NamedSocket>, Error> {
    let mut sockets = Vec::new();
    for descriptor in descriptors {
        let ((name, protocol, family), rest) =
            parse_description(description).ok_or(Error::Malformed { reason: "a socket has no description" })?;
        sockets.push((name, protocol, family, descriptor));
        description = rest;
    }
    Ok(sockets)
}

type Described<'a> = ((String, Protocol, Family), &'a [u8]);

fn parse_description(description: &[u8]) -> Option<Described<'_>> {
    let (&[protocol, family, high, low], rest) = description.split_first_chunk::<4>()?;
    let (name, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([high, low])))?;
    let name = String::from_utf8(name.to_vec()).ok()?;
    let protocol = [Protocol::Tcp, Protocol::Udp].get(usize::from(protocol)).copied()?;
    let family = Family::BOTH.get(usize::from(family)).copied()?;
    Some(((name, protocol, family), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::listening::{open, port};

    fn some(count: usize) -> Vec<NamedSocket> {
        let kinds = [(Protocol::Tcp, Family::V4), (Protocol::Udp, Family::V6)];
        let kinds = kinds.into_iter().cycle().take(count).enumerate();
        kinds.map(|(index, (p, f))| (format!("default/web:{index}"), p, f, open(p, f, 0).unwrap())).collect()
    }

    fn facts(sockets: &[NamedSocket]) -> Vec<(String, Protocol, Family, u16)> {
        sockets.iter().map(|(name, p, f, socket)| (name.clone(), *p, *f, port(socket).unwrap())).collect()
    }

    #[test]
    fn sockets_arrive_with_their_names_in_several_batches() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let sockets = some(2 * BATCH + 7);
        let expected = facts(&sockets);
        let sender = std::thread::spawn(move || send_sockets(&ours, &sockets).unwrap());
        assert_eq!(facts(&receive_sockets(&theirs).unwrap()), expected);
        sender.join().unwrap();
    }

    #[test]
    fn malformed_input_is_an_error() {
        for garbage in [&b""[..], b"abc", b"HTTP/1.1 200 OK\r\n\r\n", &[0, 0, 0, 1, 0, 0, 0, 0]] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(garbage).unwrap();
            drop(ours);
            assert!(receive_sockets(&theirs).is_err(), "{garbage:?}");
        }
    }
}
