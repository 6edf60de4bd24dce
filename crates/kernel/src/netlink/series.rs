//! A series of independent requests, sent together: one system call for hundreds of them.

use std::io;

use super::{Header, MessageWriter, Messages, Received, Socket, flags};
use crate::error::{Error, Refusal, Result};

/// The replies to this many requests fit the receive buffer.
const LONGEST_DATAGRAM: u32 = 500;

/// Requests in the order in which the kernel processes them.
#[derive(Default)]
pub struct Series {
    datagrams: Vec<MessageWriter>,
    about: Vec<About>,
}

struct About {
    what: String,
    forgiven: &'static [i32],
}

impl Series {
    /// Adds a request; `what` names it in errors. An error number in `forgiven` counts as success.
    pub fn push(
        &mut self,
        what: String,
        forgiven: &'static [i32],
        header: Header,
        fixed: &[u8],
        write: impl FnOnce(&mut MessageWriter),
    ) {
        if self.datagrams.last().is_none_or(|datagram| datagram.count() >= LONGEST_DATAGRAM) {
            self.datagrams.push(MessageWriter::default());
        }
        let datagram = self.datagrams.last_mut().expect("one was just pushed");
        datagram.message(header, fixed, write);
        datagram.add_flags_to_last(flags::ACKNOWLEDGE);
        self.about.push(About { what, forgiven });
    }

    pub fn len(&self) -> usize {
        self.about.len()
    }

    pub fn is_empty(&self) -> bool {
        self.about.is_empty()
    }
}

impl Socket {
    /// Sends all requests and returns the indices of those that were forgiven. A refused request does not stop the
    /// others, so that the state must be read again after an error.
    pub fn perform(&mut self, series: Series, attempted: &str) -> Result<Vec<usize>> {
        let mut outcome = Outcome { about: &series.about, forgiven: Vec::new(), refusals: Vec::new() };
        let mut number = 0;
        for mut datagram in series.datagrams {
            self.discard_received()?;
            let first = self.send(&mut datagram, attempted)?;
            let answered = self.gather(first, number, attempted, &mut outcome)?;
            if answered < datagram.count() {
                let source = io::Error::other("the kernel did not reply to all requests");
                return Err(Error::OutcomeUnknown { attempted: attempted.to_owned(), source });
            }
            number += datagram.count() as usize;
        }
        match outcome.refusals.is_empty() {
            true => Ok(outcome.forgiven),
            false => Err(Error::Refused { attempted: attempted.to_owned(), refusals: outcome.refusals }),
        }
    }

    /// All replies are queued when sending returns. Returns their number.
    fn gather(&mut self, first: u32, number: usize, attempted: &str, outcome: &mut Outcome<'_>) -> Result<u32> {
        let mut answered = 0;
        while let Received::Messages(bytes) = self.receive(attempted)? {
            for message in Messages::new(bytes) {
                let Some(answer) = message.acknowledgement() else { continue };
                answered += 1;
                let index = number + message.sequence.wrapping_sub(first) as usize;
                outcome.take(index, answer.errno, answer.reason);
            }
        }
        Ok(answered)
    }
}

struct Outcome<'a> {
    about: &'a [About],
    forgiven: Vec<usize>,
    refusals: Vec<Refusal>,
}

impl Outcome<'_> {
    fn take(&mut self, index: usize, errno: i32, reason: String) {
        let Some(about) = self.about.get(index).filter(|_| errno != 0) else { return };
        match about.forgiven.contains(&errno) {
            true => self.forgiven.push(index),
            false => self.refusals.push(Refusal { message: about.what.clone(), errno, reason }),
        }
    }
}
