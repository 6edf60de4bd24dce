//! Connections that exist: when each has its turn, and how each ends.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::Worker;
use super::connection::{Connection, Side, reset_on_close};
use super::flow::Pace;
use super::poller::{Poller, Source};
use super::slots::Key;
use super::timers::Alarm;
use crate::counters::Tally;

/// How long to wait for a pipe that nobody gives back.
const PIPE_RETRY: Duration = Duration::from_millis(100);

impl Worker {
    /// Brings a client and its server together.
    pub(super) fn connect(&mut self, client: OwnedFd, server: OwnedFd, tally: Arc<Tally>) {
        let key = self.connections.insert(Connection::new(client, server, tally));
        let Some(connection) = self.connections.get(key) else { return };
        match watch(&self.poller, connection, key) {
            Ok(()) => self.advance(key),
            Err(_) => {
                reset_on_close(connection.client());
                self.end(key);
            }
        }
    }

    /// Does what can be done after the kernel has told something about a side.
    pub(super) fn on_event(&mut self, key: Key, side: Side, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        connection.note(side, flags);
        if flags.contains(EventFlags::ERR) {
            self.reset(key, side);
        } else if !connection.is_queued {
            self.advance(key);
        }
    }

    fn advance(&mut self, key: Key) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let outcome = connection.run(&mut self.pipes);
        connection.is_queued = matches!(outcome, Ok(Pace::Unfinished | Pace::NeedsPipe));
        match outcome {
            Ok(Pace::Waiting) if connection.is_finished() => self.end(key),
            Ok(Pace::Waiting) => {}
            Ok(Pace::Unfinished) => self.queue.push_back(key),
            Ok(Pace::NeedsPipe) => self.wait_for_pipe(key),
            Err(side) => self.reset(key, side),
        }
    }

    fn wait_for_pipe(&mut self, key: Key) {
        if self.waiting_for_pipe.is_empty() {
            self.timers.set(self.now + PIPE_RETRY, Alarm::Retry);
        }
        self.waiting_for_pipe.push_back(key);
    }

    /// Gives everybody in the queue one turn.
    pub(super) fn run_queued(&mut self) {
        let ready = self.pipes.left().min(self.waiting_for_pipe.len());
        self.queue.extend(self.waiting_for_pipe.drain(..ready));
        for _ in 0..self.queue.len() {
            if let Some(key) = self.queue.pop_front() {
                self.advance(key);
            }
        }
    }

    fn reset(&mut self, key: Key, failed: Side) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.reset(failed, &mut self.pipes);
        }
        self.end(key);
    }

    fn end(&mut self, key: Key) {
        let Some(connection) = self.connections.remove(key) else { return };
        let tally = connection.close(&mut self.pipes);
        self.connection_ended(&tally);
    }
}

/// The server's socket was watched while it was being connected.
fn watch(poller: &Poller, connection: &Connection, key: Key) -> Result<(), Errno> {
    poller.turn_into_stream(connection.server(), Source::Server(key))?;
    poller.watch_stream(connection.client(), Source::Client(key))
}
