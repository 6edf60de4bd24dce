//! Accepts clients while there is room, pauses a listener when there is none, and resumes it when there is.
//!
//! A paused listener is not in the epoll set: its clients wait in the accept queue and cost nothing. The logic is
//! separate from sockets, so that the test below can run every interleaving of it.

use std::collections::VecDeque;

use super::slots::Key;

/// Clients that are accepted per listener and turn.
const MAX_PER_TURN: usize = 64;

/// Listeners that wait for room, in the order of their pauses.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Paused(VecDeque<Key>);

/// The outcome of one attempt to accept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Accepted {
    /// A client was taken from the queue, whether it is served or not.
    Client,
    /// The queue is empty.
    WouldBlock,
    /// The process is out of descriptors, or the socket no longer listens because another process has shut it down.
    Exhausted,
}

/// Why no more clients are accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// The queue is empty, or this turn is over: epoll reports further clients.
    Done,
    AtLimit,
    Exhausted,
}

/// What pausing and resuming needs of its surroundings.
pub(super) trait Doorway {
    fn paused(&mut self) -> &mut Paused;
    /// Whether the Service of the listener may have one more connection. True for a listener that is gone.
    fn has_room_for(&self, listener: Key) -> bool;
    /// Whether no Service may have one more connection.
    fn is_full(&self) -> bool;
    /// Whether connections have ended since the last call.
    fn take_has_room(&mut self) -> bool;
    fn accept(&mut self, listener: Key) -> Accepted;
    /// Puts the listener into the epoll set; false if that fails.
    fn watch(&mut self, listener: Key) -> bool;
    fn unwatch(&mut self, listener: Key);
    fn note_limit(&mut self, listener: Key);
    /// Calls [`retry`](Doorway::retry) after a while.
    fn retry_later(&mut self);

    /// The listener is new.
    fn start_watching(&mut self, listener: Key) {
        if !self.watch(listener) {
            self.paused().0.push_back(listener);
            self.retry_later();
        }
    }

    /// Epoll has reported clients in the queue of a listener.
    fn on_clients(&mut self, listener: Key) {
        match self.accept_some(listener) {
            Stop::Done => return,
            Stop::AtLimit => self.note_limit(listener),
            Stop::Exhausted => {
                self.note_limit(listener);
                self.retry_later();
            }
        }
        self.unwatch(listener);
        self.paused().0.push_back(listener);
    }

    /// Called at the end of each turn: what has become free goes to those that wait, in the order of their pauses.
    fn resume_paused(&mut self) {
        if !self.take_has_room() {
            return;
        }
        for _ in 0..self.paused().0.len() {
            if self.is_full() {
                return;
            }
            let Some(listener) = self.paused().0.pop_front() else { return };
            match self.accept_some(listener) {
                Stop::Done => self.start_watching(listener),
                Stop::AtLimit => self.paused().0.push_back(listener),
                Stop::Exhausted => {
                    self.paused().0.push_front(listener);
                    return self.retry_later();
                }
            }
        }
    }

    fn accept_some(&mut self, listener: Key) -> Stop {
        for _ in 0..MAX_PER_TURN {
            if !self.has_room_for(listener) {
                return Stop::AtLimit;
            }
            match self.accept(listener) {
                Accepted::Client => {}
                Accepted::WouldBlock => return Stop::Done,
                Accepted::Exhausted => return Stop::Exhausted,
            }
        }
        Stop::Done
    }
}

#[cfg(test)]
#[path = "pausing_model.rs"]
mod model;
