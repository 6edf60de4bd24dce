//! The iptables programs that this process runs. In notifications, a commit carries the netlink port of its process, which
//! for these programs is the process ID.

use std::collections::VecDeque;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a process is remembered: longer than a program runs and its notifications wait, and too short for its ID to
/// be given to another process. The comparison of every sync period finds what this mistakes.
const REMEMBERED: Duration = Duration::from_secs(30);

static OWN: Mutex<VecDeque<(Instant, u32)>> = Mutex::new(VecDeque::new());

fn own() -> MutexGuard<'static, VecDeque<(Instant, u32)>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locked while the process starts: [`is_own_process`] waits until its ID is known.
pub(super) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut own = own();
    let child = command.spawn()?;
    own.retain(|(start, _)| start.elapsed() < REMEMBERED);
    own.push_back((Instant::now(), child.id()));
    Ok(child)
}

/// Whether this process has started the one with that ID, not long ago.
pub(super) fn is_own_process(id: u32) -> bool {
    own().iter().any(|(_, own)| *own == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_process_is_own() {
        let mut child = spawn(&mut Command::new("true")).unwrap();
        assert!(is_own_process(child.id()) && !is_own_process(u32::MAX));
        assert!(child.wait().unwrap().success());
    }
}
