//! Established connections: their turns, and their end.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::Worker;
use super::admission::Seat;
use super::connection::{Connection, Side, reset_on_close};
use super::flow::Pace;
use super::pausing::Doorway;
use super::poller::{Poller, Source};
use super::slots::Key;
use crate::targets::Resets;

impl Worker {
    /// Starts relaying between a client and its server.
    pub(super) fn connect(&mut self, client: OwnedFd, server: (OwnedFd, SocketAddr), seat: Seat) {
        let key = self.connections.insert(Connection::new(client, server, seat, self.now));
        let Some(connection) = self.connections.get(key) else { return };
        match watch(&self.poller, connection, key) {
            Ok(()) => self.advance(key),
            Err(_) => {
                reset_on_close(connection.client());
                self.end(key);
            }
        }
    }

    /// Runs a connection after an epoll event on one of its sides.
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
        let outcome = connection.run(&mut self.pipes, self.now);
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
        self.waiting_for_pipe.push_back(key);
        // At the limit of pipes, the next one that is returned goes to the first that waits.
        if self.pipes.is_short() {
            self.retry_later();
        }
    }

    /// Runs every queued connection for one turn.
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

    /// Ends connections that have moved nothing for too long.
    pub(super) fn end_idle_connections(&mut self) {
        let is_idle = |connection: &Connection| connection.is_idle(&self.limits, self.now);
        let idle = self.connections.iter().filter(|(_, connection)| is_idle(connection));
        let idle: Vec<Key> = idle.map(|(key, connection)| (key, connection.reset_both()).0).collect();
        idle.into_iter().for_each(|key| self.end(key));
    }

    /// Resets both sides of some connections to an endpoint. Returns how many.
    pub(super) fn reset_connections(&mut self, wanted: &Resets) -> usize {
        let is_wanted = |connection: &Connection| {
            connection.leads(&wanted.service, wanted.endpoint) && connection.idle_time(self.now) >= wanted.idle
        };
        let chosen = self.connections.iter().filter(|(_, connection)| is_wanted(connection)).take(wanted.most);
        let chosen: Vec<Key> = chosen.map(|(key, connection)| (key, connection.reset_both()).0).collect();
        let count = chosen.len();
        chosen.into_iter().for_each(|key| self.end(key));
        count
    }

    fn end(&mut self, key: Key) {
        let Some(connection) = self.connections.remove(key) else { return };
        let seat = connection.close(&mut self.pipes);
        self.connection_ended(&seat);
    }
}

/// The socket of the server is in the epoll set already, from its dial.
fn watch(poller: &Poller, connection: &Connection, key: Key) -> Result<(), Errno> {
    poller.turn_into_stream(connection.server(), Source::Server(key))?;
    poller.watch_stream(connection.client(), Source::Client(key))
}
