//! The terminal of the user, handed to a command on a node: raw, with its size, and restored whatever happens.

use std::io::{self, IsTerminal, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use portolan_kernel::signal::{Signal, block_terminal_signals};
use portolan_source::cluster::Input;
use tokio::sync::mpsc::Sender;

use crate::system::{self, TerminalSettings};

/// How often the size is compared: a user does not see a shorter delay.
const SIZE_PERIOD: Duration = Duration::from_millis(200);
/// Leaves the alternate screen, shows the cursor, and ends colours and reports of the mouse.
const RESET: &str = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1006l\x1b[0m";

/// All three are a terminal.
pub(super) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Ends the command in a terminal.
const CTRL_C: &[u8] = b"\x03";
/// How long the command may take to end after a signal.
const FAREWELL: Duration = Duration::from_secs(3);

/// What a signal has to undo.
#[derive(Clone, Default)]
pub(super) struct Restore(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The settings to return to, if they were changed.
    before: Option<TerminalSettings>,
    /// The command to end.
    keys: Option<Sender<Input>>,
    /// The exit status after a signal.
    signal: Option<u8>,
}

impl Restore {
    /// A signal ends the command on the node, which Kubernetes would not do, and restores the terminal before it ends this
    /// process. In a raw terminal, Ctrl-C is a byte for the command.
    pub(super) fn on_signals() -> anyhow::Result<Self> {
        let signals = block_terminal_signals().context("preparing for signals")?;
        let restore = Self::default();
        let shared = restore.clone();
        let wait = move || {
            let status = if signals.wait() == Signal::Interrupt { 130 } else { 143 };
            if let Some(keys) = shared.signalled(status) {
                _ = keys.blocking_send(Input::Bytes(Bytes::from_static(CTRL_C)));
                std::thread::sleep(FAREWELL);
            }
            shared.leave();
            std::process::exit(status.into());
        };
        std::thread::Builder::new().name("signals".into()).spawn(wait).context("starting a thread")?;
        Ok(restore)
    }

    /// Every key goes to the command, and what it writes goes to the screen as it is.
    pub(super) fn enter(&self, keys: Sender<Input>) -> anyhow::Result<Raw> {
        let before = system::terminal_settings().context("reading the settings of the terminal")?;
        let raw = before.clone();
        let mut state = self.lock();
        (state.before, state.keys) = (Some(before), Some(keys));
        drop(state);
        system::make_terminal_raw(raw).context("changing the settings of the terminal")?;
        Ok(Raw(self.clone()))
    }

    /// The exit status, if there was a signal.
    pub(super) fn signal(&self) -> Option<u8> {
        self.lock().signal
    }

    fn signalled(&self, status: u8) -> Option<Sender<Input>> {
        let mut state = self.lock();
        state.signal = Some(status);
        state.keys.take()
    }

    fn leave(&self) {
        if let Some(before) = self.lock().before.take() {
            _ = system::restore_terminal(&before);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The terminal is raw until this is dropped.
pub(super) struct Raw(Restore);

impl Drop for Raw {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// What a command leaves behind that was cut off.
pub(super) fn reset() {
    let mut out = io::stdout().lock();
    _ = out.write_all(RESET.as_bytes()).and_then(|()| out.flush());
}

/// Ends with the process: a read of a terminal cannot be interrupted.
pub(super) fn read_keys(sender: Sender<Input>) -> anyhow::Result<()> {
    let read = move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = io::stdin().lock().read(&mut buffer) {
            if sender.blocking_send(Input::Bytes(Bytes::copy_from_slice(&buffer[..length]))).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("keys".into()).spawn(read).map(drop).context("starting a thread")
}

/// Reports the size, and each change of it.
pub(super) async fn report_size(sender: Sender<Input>) {
    let mut last = None;
    loop {
        let size = system::terminal_size();
        if let (true, Some((columns, rows))) = (size != last, size) {
            last = size;
            if sender.send(Input::Resize { columns, rows }).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(SIZE_PERIOD).await;
    }
}
