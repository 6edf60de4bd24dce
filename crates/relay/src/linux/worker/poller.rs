//! Epoll, and a waker for other threads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::slots::Key;

/// The meaning of a descriptor in the epoll set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Listener(Key),
    Dial(Key),
    Client(Key),
    Server(Key),
    Association(Key),
    /// The waker: another thread has sent a command.
    Command,
}

impl Source {
    fn token(self) -> EventData {
        let (kind, number) = match self {
            Source::Listener(key) => (0, key.number()),
            Source::Dial(key) => (1, key.number()),
            Source::Client(key) => (2, key.number()),
            Source::Server(key) => (3, key.number()),
            Source::Association(key) => (4, key.number()),
            Source::Command => (5, 0),
        };
        EventData::new_u64(kind << 60 | number)
    }

    fn of_token(token: u64) -> Self {
        let key = Key::of_number(token);
        match token >> 60 {
            0 => Source::Listener(key),
            1 => Source::Dial(key),
            2 => Source::Client(key),
            3 => Source::Server(key),
            4 => Source::Association(key),
            _ => Source::Command,
        }
    }
}

/// The largest number of events per wait; the rest is returned by the next one.
const EVENTS: usize = 256;

/// Both directions, edge-triggered.
const STREAM: EventFlags = EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

pub(crate) struct Poller {
    epoll: OwnedFd,
    waker: Arc<OwnedFd>,
}

/// The events of one wait.
pub(crate) struct Events(Vec<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Events(Vec::with_capacity(EVENTS))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Source, EventFlags)> {
        // A packed structure: its fields must be copied before they can be referenced.
        self.0.iter().map(|event| {
            let (data, flags) = (event.data, event.flags);
            (Source::of_token(data.u64()), flags)
        })
    }
}

impl Poller {
    pub(crate) fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&epoll, &waker, Source::Command.token(), EventFlags::IN | EventFlags::ET)?;
        Ok(Poller { epoll, waker: Arc::new(waker) })
    }

    /// The eventfd that other threads write eight bytes to, to make `wait` return.
    pub(crate) fn waker(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.waker)
    }

    /// Waits for an event, or for the given time.
    pub(crate) fn wait(&self, most: Option<Duration>, events: &mut Events) {
        events.0.clear();
        let most = most.map(rounded_up);
        match epoll::wait(&self.epoll, spare_capacity(&mut events.0), most.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("epoll_wait failed: {error}"),
        }
    }

    /// Watches for input, level-triggered.
    pub(crate) fn watch_for_input(&self, descriptor: impl AsFd, source: Source) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, source.token(), EventFlags::IN)
    }

    pub(crate) fn forget(&self, descriptor: impl AsFd) {
        // The descriptor may be absent from the set already.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Watches a connection in progress for success or failure.
    pub(crate) fn watch_dial(&self, descriptor: impl AsFd, source: Source) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, source.token(), EventFlags::OUT)
    }

    pub(crate) fn watch_stream(&self, descriptor: impl AsFd, source: Source) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, source.token(), STREAM)
    }

    /// Switches a dialed socket to the events of a stream.
    pub(crate) fn turn_into_stream(&self, descriptor: impl AsFd, source: Source) -> Result<(), Errno> {
        epoll::modify(&self.epoll, descriptor, source.token(), STREAM)
    }
}

/// Rounded up to whole milliseconds, the resolution of older kernels; rounding down would busy-loop in the last one.
fn rounded_up(duration: Duration) -> Timespec {
    let milliseconds = duration.as_nanos().div_ceil(1_000_000).min(60_000) as i64;
    Timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_round_trips() {
        let key = Key::of_number(0x0abc_def1_2345_6789);
        let kinds = [Source::Listener, Source::Dial, Source::Client, Source::Server, Source::Association];
        for source in kinds.map(|kind| kind(key)).into_iter().chain([Source::Command]) {
            assert_eq!(Source::of_token(source.token().u64()), source);
        }
    }

    #[test]
    fn waiting_is_rounded_up() {
        assert_eq!(rounded_up(Duration::from_micros(1)), Timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        assert_eq!(rounded_up(Duration::ZERO), Timespec { tv_sec: 0, tv_nsec: 0 });
        assert_eq!(rounded_up(Duration::from_secs(1)), Timespec { tv_sec: 1, tv_nsec: 0 });
    }
}
