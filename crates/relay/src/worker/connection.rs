//! A client, its server, and the two flows between them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::net::sockopt::set_socket_linger;

use super::flow::{Broken, Flow, Pace};
use super::pipes::Pipes;
use crate::counters::Tally;

pub(crate) struct Connection {
    client: OwnedFd,
    server: OwnedFd,
    /// From the client to the server.
    up: Flow,
    /// From the server to the client.
    down: Flow,
    tally: Arc<Tally>,
    /// The connection waits for its next turn, or for a pipe.
    pub(crate) is_queued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    Client,
    Server,
}

/// There is input, or there will never be any.
const INPUT: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::HUP).union(EventFlags::ERR);
/// There is room for output, or there will never be any.
const OUTPUT: EventFlags = EventFlags::OUT.union(EventFlags::HUP).union(EventFlags::ERR);

impl Connection {
    pub(crate) fn new(client: OwnedFd, server: OwnedFd, tally: Arc<Tally>) -> Self {
        // Most clients send first, and have sent by now; servers wait for that.
        let (up, down) = (Flow::new(true), Flow::new(false));
        Connection { client, server, up, down, tally, is_queued: false }
    }

    pub(crate) fn client(&self) -> &OwnedFd {
        &self.client
    }

    pub(crate) fn server(&self) -> &OwnedFd {
        &self.server
    }

    /// Records the readiness that epoll reports for a side.
    pub(crate) fn note(&mut self, side: Side, flags: EventFlags) {
        let (from_here, to_here) = match side {
            Side::Client => (&mut self.up, &mut self.down),
            Side::Server => (&mut self.down, &mut self.up),
        };
        from_here.is_readable |= flags.intersects(INPUT);
        to_here.is_writable |= flags.intersects(OUTPUT);
    }

    /// Moves bytes in both directions for one turn, or returns the side that has failed.
    pub(crate) fn run(&mut self, pipes: &mut Pipes) -> Result<Pace, Side> {
        let up = self.run_up(pipes)?;
        let down = self.run_down(pipes)?;
        Ok(up.max(down))
    }

    fn run_up(&mut self, pipes: &mut Pipes) -> Result<Pace, Side> {
        let mut moved = 0;
        let outcome = self.up.run(&self.client, &self.server, pipes, &mut moved);
        self.tally.bytes_from_clients.add(moved);
        outcome.map_err(|broken| if broken == Broken::Source { Side::Client } else { Side::Server })
    }

    fn run_down(&mut self, pipes: &mut Pipes) -> Result<Pace, Side> {
        let mut moved = 0;
        let outcome = self.down.run(&self.server, &self.client, pipes, &mut moved);
        self.tally.bytes_to_clients.add(moved);
        outcome.map_err(|broken| if broken == Broken::Source { Side::Server } else { Side::Client })
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.up.is_finished && self.down.is_finished
    }

    /// Delivers what a failed side had sent before, and then resets the other side.
    pub(crate) fn reset(&mut self, failed: Side, pipes: &mut Pipes) {
        // A socket error is reported once. A later read returns an orderly end of file, which must not be forwarded.
        self.up.is_finished = true;
        self.down.is_finished = true;
        // The connection ends in any case.
        let _ = match failed {
            Side::Client => self.run_up(pipes),
            Side::Server => self.run_down(pipes),
        };
        reset_on_close(&self.client);
        reset_on_close(&self.server);
    }

    /// Closes both sides and returns the tally that counts the connection.
    pub(crate) fn close(mut self, pipes: &mut Pipes) -> Arc<Tally> {
        self.up.abandon(pipes);
        self.down.abandon(pipes);
        self.tally
    }
}

/// Makes the peer see a reset instead of an orderly close.
pub(crate) fn reset_on_close(socket: &OwnedFd) {
    // If the option cannot be set, the socket is closed normally.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}
