//! The control socket, and the handover of listening sockets between two daemons.

use std::cell::RefCell;
use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use portolan::control::fuzz::{question, take_sockets};
use portolan_dataplane::mode::ModeView;
use portolan_dataplane::{ModeSettings, modes, receive_sockets};
use portolan_plan::{Plan, plan};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::cluster::{config, example};

thread_local! {
    static DAEMON: RefCell<(Plan, Box<dyn ModeView>)> = RefCell::new((
        plan(&example(), &Plan::default(), &config()),
        modes::default().view(&ModeSettings::default(), None),
    ));
}

/// One line from a client.
pub(crate) fn control(bytes: &[u8]) {
    DAEMON.with_borrow(|(plan, view)| question(&String::from_utf8_lossy(bytes), plan, &**view));
}

/// More than the socket's buffer would block, as nothing is read meanwhile.
const LONGEST: usize = 64 * 1024;
const MOST_DESCRIPTORS: usize = 7;

/// What a peer sends, with some descriptors. The first byte has their number, and whether the line of the control socket
/// comes first. As many sockets are taken as were sent.
pub(crate) fn handover(bytes: &[u8]) {
    let Some((selector, bytes)) = bytes.split_first().filter(|(_, rest)| !rest.is_empty() && rest.len() < LONGEST)
    else {
        return;
    };
    let count = usize::from(*selector) % (MOST_DESCRIPTORS + 1);
    let Some(stream) = sent(bytes, count) else { return };
    let taken = match selector & 0x80 {
        0 => receive_sockets(&stream).map(|sockets| sockets.len()).ok(),
        _ => take_sockets(&stream).ok(),
    };
    assert!(taken.is_none_or(|taken| taken <= count), "{taken:?} of {count} descriptors");
}

/// The receiving end of a stream that has ended. Descriptors are attached to the first byte after the line.
fn sent(bytes: &[u8], count: usize) -> Option<UnixStream> {
    let (mut ours, theirs) = UnixStream::pair().ok()?;
    let null = File::open("/dev/null").ok()?;
    let descriptors: Vec<BorrowedFd<'_>> = (0..count).map(|_| null.as_fd()).collect();
    let line = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let (line, rest) = bytes.split_at(if line < bytes.len() { line } else { 0 });
    ours.write_all(line).ok()?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if count > 0 {
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    sendmsg(&ours, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL).ok()?;
    Some(theirs)
}
