//! A client, its server, and the two flows between them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::EventFlags;
use rustix::net::getpeername;
use rustix::net::sockopt::set_socket_linger;

use super::admission::Seat;
use super::flow::{Broken, Flow, Pace};
use super::listing::Listed;
use super::pipes::Pipes;
use crate::limits::Limits;

pub(crate) struct Connection {
    client: OwnedFd,
    server: OwnedFd,
    endpoint: SocketAddr,
    /// From the client to the server.
    up: Flow,
    /// From the server to the client.
    down: Flow,
    seat: Seat,
    started: Instant,
    /// Bytes from and to the client.
    sent: u64,
    received: u64,
    /// When a byte or the end of file was forwarded last.
    last_moved: Instant,
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
    pub(crate) fn new(client: OwnedFd, (server, endpoint): (OwnedFd, SocketAddr), seat: Seat, now: Instant) -> Self {
        // Most clients send first, and have sent by now; servers wait for that.
        let (up, down) = (Flow::new(true), Flow::new(false));
        Connection {
            client,
            server,
            endpoint,
            up,
            down,
            seat,
            started: now,
            sent: 0,
            received: 0,
            last_moved: now,
            is_queued: false,
        }
    }

    pub(crate) fn client(&self) -> &OwnedFd {
        &self.client
    }

    pub(crate) fn server(&self) -> &OwnedFd {
        &self.server
    }

    /// Whether it is a connection of this Service to this endpoint.
    pub(crate) fn leads(&self, service: &str, endpoint: SocketAddr) -> bool {
        self.endpoint == endpoint && self.seat.is_of(service)
    }

    /// `None` once the client is gone.
    pub(super) fn listed(&self, now: Instant) -> Option<Listed> {
        let client = getpeername(&self.client).ok()??;
        Some(Listed {
            tally: Arc::clone(&self.seat.tally),
            client: client.try_into().ok()?,
            endpoint: self.endpoint,
            age: now.saturating_duration_since(self.started),
            idle: self.idle_time(now),
            bytes_from_client: self.sent,
            bytes_to_client: self.received,
        })
    }

    pub(crate) fn idle_time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last_moved)
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
    pub(crate) fn run(&mut self, pipes: &mut Pipes, now: Instant) -> Result<Pace, Side> {
        let was_half_closed = self.is_half_closed();
        let (up, sent) = self.run_up(pipes)?;
        let (down, received) = self.run_down(pipes)?;
        if sent + received > 0 || self.is_half_closed() != was_half_closed {
            self.last_moved = now;
        }
        Ok(up.max(down))
    }

    fn is_half_closed(&self) -> bool {
        self.up.is_finished != self.down.is_finished
    }

    /// Whether nothing has been forwarded for the time that the state of the connection allows.
    pub(crate) fn is_idle(&self, limits: &Limits, now: Instant) -> bool {
        let most = if self.is_half_closed() { limits.tcp_half_closed } else { limits.tcp_idle };
        !most.is_zero() && now.saturating_duration_since(self.last_moved) >= most
    }

    fn run_up(&mut self, pipes: &mut Pipes) -> Result<(Pace, u64), Side> {
        let mut moved = 0;
        let outcome = self.up.run(&self.client, &self.server, pipes, &mut moved);
        self.sent += moved;
        self.seat.count_from_client(moved);
        let failed = |broken| if broken == Broken::Source { Side::Client } else { Side::Server };
        outcome.map(|pace| (pace, moved)).map_err(failed)
    }

    fn run_down(&mut self, pipes: &mut Pipes) -> Result<(Pace, u64), Side> {
        let mut moved = 0;
        let outcome = self.down.run(&self.server, &self.client, pipes, &mut moved);
        self.received += moved;
        self.seat.count_to_client(moved);
        let failed = |broken| if broken == Broken::Source { Side::Server } else { Side::Client };
        outcome.map(|pace| (pace, moved)).map_err(failed)
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
        self.reset_both();
    }

    pub(crate) fn reset_both(&self) {
        reset_on_close(&self.client);
        reset_on_close(&self.server);
    }

    /// Closes both sides.
    pub(crate) fn close(mut self, pipes: &mut Pipes) -> Seat {
        self.up.abandon(pipes);
        self.down.abandon(pipes);
        self.seat
    }
}

/// Makes the peer see a reset instead of an orderly close.
pub(crate) fn reset_on_close(socket: &OwnedFd) {
    // If the option cannot be set, the socket is closed normally.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}
