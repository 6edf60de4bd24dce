//! Finding an endpoint that answers. An endpoint that is late gets company: the next is asked beside it, and the first to
//! answer gets the client. What was asked in vain goes on for a while, to learn whether the endpoint is only slow.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::Protocol;
use rustix::io::Errno;
use rustix::net::connect;
use rustix::net::sockopt::socket_error;

use super::Worker;
use super::accepting::BEFORE_TRYING_AGAIN;
use super::connection::reset_on_close;
use super::poller::Source;
use super::slots::Key;
use super::timers::Alarm;
use crate::counters::Tally;
use crate::listening::outgoing;

/// An endpoint that has not answered by then is avoided by others.
const LATE: Duration = Duration::from_millis(100);

/// How long an endpoint is waited for when it is asked for the first time, the second, and so on.
const PATIENCE: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];

/// Every endpoint is asked once, and a few are asked again until there were so many questions.
const FEWEST_TRIES: usize = 8;

/// A client who is looking for an endpoint.
pub(super) struct Visitor {
    client: OwnedFd,
    address: SocketAddr,
    listener: Key,
    tally: Arc<Tally>,
    asked: Vec<Asked>,
    tries: usize,
}

/// What a client knows of an endpoint.
struct Asked {
    endpoint: SocketAddr,
    times: usize,
    is_pending: bool,
    has_refused: bool,
}

/// A connection that is being made. Its client may have got another one in the meantime.
pub(super) struct Dial {
    visitor: Key,
    socket: OwnedFd,
    endpoint: SocketAddr,
    patience: Duration,
    tally: Arc<Tally>,
}

/// Which endpoints are worth asking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worth {
    /// One that answers, as far as is known.
    Trusted,
    Any,
}

impl Visitor {
    /// How often an endpoint was asked; nothing if there is no point in asking it now.
    fn times_asked(&self, endpoint: SocketAddr) -> Option<usize> {
        match self.asked.iter().find(|asked| asked.endpoint == endpoint) {
            Some(asked) if asked.is_pending || asked.has_refused => None,
            asked => Some(asked.map_or(0, |asked| asked.times)),
        }
    }

    fn asked(&mut self, endpoint: SocketAddr) -> &mut Asked {
        let index = self.asked.iter().position(|asked| asked.endpoint == endpoint).unwrap_or_else(|| {
            self.asked.push(Asked { endpoint, times: 0, is_pending: false, has_refused: false });
            self.asked.len() - 1
        });
        &mut self.asked[index]
    }

    fn is_waiting(&self) -> bool {
        self.asked.iter().any(|asked| asked.is_pending)
    }
}

impl Worker {
    pub(super) fn find_endpoint(&mut self, listener: Key, client: OwnedFd, address: SocketAddr, tally: Arc<Tally>) {
        if let Some(listener) = self.listeners.get_mut(listener) {
            listener.visitors += 1;
        }
        let visitor = Visitor { client, address, listener, tally, asked: Vec::new(), tries: 0 };
        let visitor = self.visitors.insert(visitor);
        self.dial_next(visitor, Worth::Any);
    }

    /// Asks the next endpoint. A client whom none is left for is turned away.
    fn dial_next(&mut self, visitor: Key, worth: Worth) {
        while let Some(endpoint) = self.next_endpoint(visitor, worth) {
            match self.dial(visitor, endpoint) {
                Ok(()) => return,
                Err(error) if is_shortage(error) => return self.wait_for_descriptor(visitor),
                Err(error) => self.note_refusal(visitor, endpoint, error),
            }
        }
        if self.visitors.get(visitor).is_some_and(|visitor| !visitor.is_waiting()) {
            self.turn_away(visitor);
        }
    }

    fn next_endpoint(&mut self, visitor: Key, worth: Worth) -> Option<SocketAddr> {
        let visitor = self.visitors.get(visitor)?;
        let choice = &mut self.listeners.get_mut(visitor.listener)?.choice;
        let is_trusted = |endpoint: &SocketAddr| !self.doubts.is_doubtful(Protocol::Tcp, *endpoint, self.now);
        if visitor.tries == 0
            && let Some(endpoint) = choice.bound(visitor.address.ip(), self.now).filter(is_trusted)
        {
            return Some(endpoint);
        }
        let fresh = choice.next(|endpoint| visitor.times_asked(endpoint) == Some(0) && is_trusted(&endpoint));
        if fresh.is_some() || worth == Worth::Trusted || visitor.tries >= choice.endpoints().len().max(FEWEST_TRIES) {
            return fresh;
        }
        (0..PATIENCE.len()).find_map(|times| choice.next(|endpoint| visitor.times_asked(endpoint) == Some(times)))
    }

    fn dial(&mut self, key: Key, endpoint: SocketAddr) -> Result<(), Errno> {
        let socket = outgoing(Protocol::Tcp, endpoint)?;
        let Some(visitor) = self.visitors.get_mut(key) else { return Ok(()) };
        visitor.tally.retries.add(u64::from(visitor.tries > 0));
        visitor.tries += 1;
        let tally = Arc::clone(&visitor.tally);
        let asked = visitor.asked(endpoint);
        let patience = PATIENCE[asked.times.min(PATIENCE.len() - 1)];
        asked.times += 1;
        begin(&socket, endpoint)?;
        self.doubts.asked(Protocol::Tcp, endpoint, self.now);
        self.watch_dial(Dial { visitor: key, socket, endpoint, patience, tally })
    }

    fn watch_dial(&mut self, dial: Dial) -> Result<(), Errno> {
        let key = self.dials.insert(dial);
        let Some(dial) = self.dials.get(key) else { return Ok(()) };
        let outcome = self.poller.watch_dial(&dial.socket, Source::Dial(key));
        match outcome {
            Ok(()) => {
                self.timers.set(self.now + LATE, Alarm::Stalled(key));
                if let Some(visitor) = self.visitors.get_mut(dial.visitor) {
                    visitor.asked(dial.endpoint).is_pending = true;
                }
            }
            Err(_) => drop(self.dials.remove(key)),
        }
        outcome
    }

    /// There are none left for another socket, so that the client waits for better times.
    fn wait_for_descriptor(&mut self, visitor: Key) {
        self.stranded.push(visitor);
        self.timers.set(self.now + BEFORE_TRYING_AGAIN, Alarm::TryAgain);
    }

    pub(super) fn dial_for_stranded(&mut self) {
        for visitor in std::mem::take(&mut self.stranded) {
            self.dial_next(visitor, Worth::Any);
        }
    }

    /// The endpoint has said no, or there is no way to it. This client does not ask it again.
    fn note_refusal(&mut self, visitor: Key, endpoint: SocketAddr, error: Errno) {
        // Without a free port here, it is not the endpoint's fault.
        if error != Errno::ADDRNOTAVAIL {
            self.doubts.failed(Protocol::Tcp, endpoint, self.now);
        }
        if let Some(visitor) = self.visitors.get_mut(visitor) {
            visitor.tally.dial_errors.add(1);
            let asked = visitor.asked(endpoint);
            asked.is_pending = false;
            asked.has_refused = true;
        }
    }

    pub(super) fn conclude_dial(&mut self, key: Key) {
        let Some(dial) = self.dials.remove(key) else { return };
        match socket_error(&dial.socket).and_then(|state| state) {
            Ok(()) => self.dial_is_answered(dial),
            Err(error) => {
                self.note_refusal(dial.visitor, dial.endpoint, error);
                self.dial_next(dial.visitor, Worth::Any);
            }
        }
    }

    fn dial_is_answered(&mut self, dial: Dial) {
        self.doubts.answered(Protocol::Tcp, dial.endpoint);
        let Some(visitor) = self.visitors.remove(dial.visitor) else {
            // Its client has another one.
            return reset_on_close(&dial.socket);
        };
        if let Some(listener) = self.listeners.get_mut(visitor.listener) {
            listener.visitors -= 1;
            listener.choice.bind(visitor.address.ip(), dial.endpoint, self.now);
        }
        self.remove_if_unused(visitor.listener);
        self.connect(visitor.client, dial.socket, visitor.tally);
    }

    /// Others keep away from it, and the client asks another one that is worth it beside.
    pub(super) fn dial_is_late(&mut self, key: Key) {
        let Some(dial) = self.dials.get(key) else { return };
        let visitor = dial.visitor;
        self.doubts.suspect(Protocol::Tcp, dial.endpoint, self.now);
        self.timers.set(self.now + (dial.patience - LATE), Alarm::TimedOut(key));
        self.dial_next(visitor, Worth::Trusted);
    }

    pub(super) fn give_up_dial(&mut self, key: Key) {
        let Some(dial) = self.dials.remove(key) else { return };
        self.doubts.failed(Protocol::Tcp, dial.endpoint, self.now);
        dial.tally.dial_errors.add(1);
        let Some(visitor) = self.visitors.get_mut(dial.visitor) else { return };
        visitor.asked(dial.endpoint).is_pending = false;
        if !visitor.is_waiting() {
            self.dial_next(dial.visitor, Worth::Any);
        }
    }

    /// No endpoint answers: the client sees that at once.
    fn turn_away(&mut self, key: Key) {
        let Some(visitor) = self.visitors.remove(key) else { return };
        reset_on_close(&visitor.client);
        visitor.tally.failed.add(1);
        if let Some(listener) = self.listeners.get_mut(visitor.listener) {
            listener.visitors -= 1;
        }
        self.remove_if_unused(visitor.listener);
        self.is_over(&visitor.tally);
    }
}

fn begin(socket: &OwnedFd, endpoint: SocketAddr) -> Result<(), Errno> {
    match connect(socket, &endpoint) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(()),
        Err(error) => Err(error),
    }
}

/// There are no descriptors or no memory left here.
pub(super) fn is_shortage(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}
