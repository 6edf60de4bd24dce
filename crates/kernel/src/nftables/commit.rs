//! The handle to the kernel's tables, and committing batches.

use std::io;
use std::time::Duration;

use super::batch::{Batch, header};
use super::describe::describe_operation;
use super::uapi::{self, message};
use crate::error::{Error, Refusal, Result};
use crate::netlink::{Acknowledgement, MessageWriter, Messages, Received, Socket, flags};
use crate::system::libc;

/// How long a read insists on an interval without foreign commits.
const STRICT_FOR: Duration = Duration::from_millis(100);

/// The tables of the network namespace that the handle was opened in.
pub struct Nftables {
    pub(super) socket: Socket,
    acknowledge_all: bool,
    pub(super) hides_counts: bool,
    pub(super) strict_for: Duration,
}

/// Options for tests: lose replies, insist longer on an interval without commits, or behave as on an older kernel.
#[doc(hidden)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    pub receive_buffer: Option<usize>,
    pub strict_for: Option<Duration>,
    /// Request an acknowledgement of every operation instead of only the last.
    pub acknowledge_all: bool,
    /// Behave as on a kernel that does not give the number of elements of a set.
    pub hides_counts: bool,
}

impl Nftables {
    pub fn open() -> Result<Self> {
        Nftables::open_with(Options::default())
    }

    #[doc(hidden)]
    pub fn open_with(options: Options) -> Result<Self> {
        let socket = Socket::open(libc::NETLINK_NETFILTER)?;
        if let Some(bytes) = options.receive_buffer {
            socket.set_receive_buffer(bytes)?;
        }
        let strict_for = options.strict_for.unwrap_or(STRICT_FOR);
        let Options { acknowledge_all, hides_counts, .. } = options;
        Ok(Nftables { socket, acknowledge_all, hides_counts, strict_for })
    }

    /// The port id of our commits in notifications.
    pub fn port_id(&self) -> u32 {
        self.socket.port_id()
    }

    /// The number of the last commit to any table, by any process.
    pub fn generation(&mut self) -> Result<u32> {
        let attempted = "reading the generation of the rules";
        let mut request = MessageWriter::default();
        request.message(header(message::GET_GENERATION, 0), &[0; 4], |_| {});
        let answer = self.socket.request(&mut request, attempted)?;
        Messages::new(&answer)
            .find_map(|message| {
                let attributes = message.attributes(uapi::PROTOCOL_HEADER);
                attributes.number_32(uapi::GENERATION_ID)
            })
            .ok_or_else(|| Error::malformed(attempted, "it has no generation"))
    }

    /// Commits the batch as one transaction.
    pub fn commit(&mut self, batch: Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let attempted = format!("a batch of {} operations", batch.message_count());
        let mut messages = batch.close();
        if self.acknowledge_all {
            messages.add_flags_to_all(flags::ACKNOWLEDGE);
        }
        // A batch that failed in the middle of its replies may have left some in the queue.
        self.socket.discard_received()?;
        let first = self.socket.send(&mut messages, &attempted)?;
        let answers = self.receive_answers(first, messages.count(), &attempted)?;
        answers.outcome(messages.bytes(), messages.count() - 2, attempted)
    }

    /// Has the kernel check the batch without committing it: it aborts a batch that has no end. In a new table it checks
    /// each operation, but not which hooks an expression may be used in (Linux 6.18).
    pub fn check(&mut self, batch: Batch) -> Result<()> {
        let attempted = format!("a trial of {} operations", batch.message_count());
        let mut messages = batch.without_end();
        self.socket.discard_received()?;
        let first = self.socket.send(&mut messages, &attempted)?;
        let answers = self.receive_answers(first, messages.count(), &attempted)?;
        answers.outcome(messages.bytes(), messages.count() - 1, attempted)
    }

    /// Returns when a commit in progress, if any, is complete: batches are serialized, and an empty one does nothing
    /// else.
    pub(super) fn wait_for_commits(&mut self) -> Result<()> {
        let mut empty = Batch::new().close();
        self.socket.send(&mut empty, "an empty batch").map(drop)
    }

    /// All replies are queued when `send` returns, so that this reads until the queue is empty.
    fn receive_answers(&mut self, first: u32, count: u32, attempted: &str) -> Result<Answers> {
        let mut answers = Answers::default();
        loop {
            match self.socket.receive(attempted)? {
                Received::Nothing => return Ok(answers),
                Received::Overflow => answers.overflow = true,
                Received::Messages(bytes) => {
                    for message in Messages::new(bytes) {
                        let index = message.sequence.wrapping_sub(first);
                        if let Some(answer) = message.acknowledgement().filter(|_| index < count) {
                            answers.take(index, answer);
                        }
                    }
                }
            }
        }
    }
}

/// The kernel's replies to the messages of one batch.
#[derive(Default)]
struct Answers {
    accepted: Option<u32>,
    refused: Vec<(u32, Acknowledgement)>,
    overflow: bool,
}

impl Answers {
    fn take(&mut self, index: u32, answer: Acknowledgement) {
        match answer.errno {
            0 => self.accepted = self.accepted.max(Some(index)),
            _ => self.refused.push((index, answer)),
        }
    }

    /// Evaluates the replies to a batch whose last operation has the index `last`.
    fn outcome(self, batch: &[u8], last: u32, attempted: String) -> Result<()> {
        // One refusal makes the kernel abort the batch, whatever its other replies: it acknowledges the last
        // operation even then.
        if !self.refused.is_empty() {
            return Err(self.refusal(batch, attempted));
        }
        let source = match self.accepted {
            Some(index) if index >= last && !self.overflow => return Ok(()),
            _ if self.overflow => io::Error::from_raw_os_error(libc::ENOBUFS),
            _ => io::Error::other("the kernel did not reply"),
        };
        Err(Error::OutcomeUnknown { attempted, source })
    }

    fn refusal(self, batch: &[u8], attempted: String) -> Error {
        // The generation is checked with the opening message, which has the index 0.
        let is_outdated = |(index, answer): &(u32, Acknowledgement)| *index == 0 && answer.errno == libc::ERESTART;
        if self.refused.iter().any(is_outdated) {
            return Error::Outdated { attempted };
        }
        let refusals = self.refused.into_iter().map(|(index, answer)| Refusal {
            message: describe_operation(batch, index as usize, answer.offset),
            errno: answer.errno,
            reason: answer.reason,
        });
        Error::Refused { attempted, refusals: refusals.collect() }
    }
}
