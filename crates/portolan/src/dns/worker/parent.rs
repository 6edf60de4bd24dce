//! The DNS process as the process with the rules sees it: started, kept up to date, and restarted when it ends.
//!
//! Rules do not wait for it: a process that does not confirm in time is killed, and while none runs, no name is answered.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portolan_model::Snapshot;
use portolan_status::Metrics;

use super::facts::Change;
use super::frame::{read_number, write_change};
use crate::flags::DnsUser;
use crate::system::{self, Stream};

/// How long the process may take to put names in force.
const PATIENCE: Duration = Duration::from_secs(2);
/// The backoff after the process has ended; each further one doubles it.
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// How the process is started.
pub(crate) struct WorkerCommand {
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) config: Option<PathBuf>,
    pub(crate) user: DnsUser,
    /// Counts restarts.
    pub(crate) metrics: Arc<Metrics>,
}

/// A supervised DNS process. Dropping it ends the process.
pub struct Worker {
    shared: Arc<Shared>,
    supervisor: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// The facts that names should be made of; `None` until the first sync.
    wanted: Option<Snapshot>,
    /// What the running process has received.
    sent: Snapshot,
    /// The numbers of the last change that was sent, and of the last that is in force.
    last: u64,
    confirmed: u64,
    is_stopped: bool,
}

struct Running {
    process: Child,
    stream: Stream,
}

impl Worker {
    pub(crate) fn start(command: WorkerCommand) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let supervised = shared.clone();
        let work = move || supervised.supervise(&command);
        let supervisor = thread::Builder::new().name("dns".into()).spawn(work)?;
        Ok(Self { shared, supervisor: Some(supervisor) })
    }

    /// After this returns, all answers come from these facts, or there are none.
    pub(crate) fn publish(&self, snapshot: &Snapshot) {
        let mut state = self.shared.lock();
        state.wanted = Some(snapshot.clone());
        if let Some(number) = state.send() {
            self.shared.wait_for(state, number);
        }
    }

    /// The facts that were published last.
    pub(crate) fn published(&self) -> Option<Snapshot> {
        self.shared.lock().wanted.clone()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_stopped = true;
        state.kill();
        drop(state);
        self.shared.changed.notify_all();
        self.supervisor.take().map(JoinHandle::join);
    }
}

impl State {
    /// Sends what has changed. Returns the number to wait for, if there is any.
    fn send(&mut self) -> Option<u64> {
        let (running, wanted) = (self.running.as_mut()?, self.wanted.as_ref()?);
        let change = Change::between(&self.sent, wanted);
        if self.last > 0 && change == Change::default() {
            return None;
        }
        self.last += 1;
        self.sent = wanted.clone();
        if let Err(error) = write_change(&mut running.stream, self.last, &change) {
            tracing::error!("sending names to the DNS process: {error}; restarting it");
            self.kill();
            return None;
        }
        Some(self.last)
    }

    fn kill(&mut self) {
        if let Some(running) = &mut self.running {
            _ = running.process.kill();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for(&self, state: MutexGuard<'_, State>, number: u64) {
        let is_waiting = |state: &mut State| state.running.is_some() && state.confirmed < number && !state.is_stopped;
        let outcome = self.changed.wait_timeout_while(state, PATIENCE, is_waiting);
        let (mut state, timeout) = outcome.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            tracing::error!("the DNS process has not confirmed names within {PATIENCE:?}; restarting it");
            state.kill();
        }
    }

    /// Starts the process whenever none runs.
    fn supervise(&self, command: &WorkerCommand) {
        let mut backoff = FIRST_BACKOFF;
        loop {
            let start = Instant::now();
            match self.start(command) {
                Ok(stream) => self.follow(stream),
                Err(error) => tracing::error!("starting the DNS process: {error}"),
            }
            if self.lock().is_stopped {
                return;
            }
            let is_lasting = start.elapsed() > LONGEST_BACKOFF;
            backoff = if is_lasting { FIRST_BACKOFF } else { backoff };
            tracing::error!("the DNS process has ended; restarting it in {backoff:?}");
            command.metrics.dns_restarted();
            self.pause(backoff);
            backoff = (backoff * 2).min(LONGEST_BACKOFF);
        }
    }

    fn start(&self, command: &WorkerCommand) -> io::Result<Stream> {
        let (stream, theirs) = system::pair()?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let process = command.spawn(theirs)?;
        let reader = stream.try_clone()?;
        let mut state = self.lock();
        state.running = Some(Running { process, stream });
        (state.sent, state.last, state.confirmed) = (Snapshot::default(), 0, 0);
        if state.is_stopped {
            state.kill();
        }
        state.send();
        Ok(reader)
    }

    /// Reads confirmations until the process has ended.
    fn follow(&self, mut stream: Stream) {
        while let Ok(Some(number)) = read_number(&mut stream) {
            self.lock().confirmed = number;
            self.changed.notify_all();
        }
        let running = self.lock().running.take();
        self.changed.notify_all();
        if let Some(mut running) = running {
            _ = running.process.kill();
            _ = running.process.wait();
        }
    }

    fn pause(&self, time: Duration) {
        let is_running = |state: &mut State| !state.is_stopped;
        _ = self.changed.wait_timeout_while(self.lock(), time, is_running);
    }
}

impl WorkerCommand {
    fn spawn(&self, stream: Stream) -> io::Result<Child> {
        let mut command = Command::new(system::own_program()?);
        command.arg("dns-worker").arg("--user").arg(self.user.to_string());
        self.listen.iter().for_each(|address| _ = command.arg("--listen").arg(address.to_string()));
        self.config.iter().for_each(|file| _ = command.arg("--config").arg(file));
        command.env_clear().stdin(system::as_input(stream)).stdout(Stdio::null()).spawn()
    }
}
