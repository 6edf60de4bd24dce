//! Foreign changes while endpoints change all the time: the time until each is repaired.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use portolan_testkit::topology;

use crate::node::{Node, service};
use crate::poll::until;

/// Time between two changes of endpoints, shorter than a sync takes.
const CHURN_EVERY: Duration = Duration::from_millis(20);
const CHURN_EVERY_IN_VM: Duration = Duration::from_millis(200);

/// A foreign command that damages what a mode has programmed, and a command whose output shows whether it is repaired.
pub(crate) struct Damage<'a> {
    pub(crate) command: &'a str,
    pub(crate) look: &'a str,
    pub(crate) intact: &'a str,
}

/// How often each damage is repeated: `REPAIRS=50` for the table in `docs/benchmarks.md`.
fn rounds() -> usize {
    let usual = if is_in_vm() { 1 } else { 3 };
    std::env::var("REPAIRS").ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// Emulation makes everything slow.
fn is_in_vm() -> bool {
    std::env::var_os("IN_TEST_VM").is_some()
}

/// Repeats the damage under churn, and returns the longest time until it was repaired.
pub(crate) fn longest_repair(node: &Node, name: &str, damages: &[Damage<'_>]) -> Duration {
    let mut longest = Duration::ZERO;
    under_churn(node, || {
        for damage in damages {
            let mut times: Vec<Duration> = (0..rounds()).map(|_| repair(node, damage)).collect();
            times.sort();
            let (median, max) = (times[times.len() / 2], times[times.len() - 1]);
            println!("{name}: {}: {} repairs, p50 {median:.0?}, max {max:.0?}", damage.command, times.len());
            longest = longest.max(max);
        }
    });
    longest
}

fn repair(node: &Node, damage: &Damage<'_>) -> Duration {
    let is_intact = || try_run(node, damage.look).is_some_and(|text| text.contains(damage.intact));
    until("it is intact before the damage", is_intact);
    assert!(try_run(node, damage.command).is_some(), "{} succeeds", damage.command);
    let start = Instant::now();
    until(&format!("{} is repaired", damage.command), is_intact);
    start.elapsed()
}

/// Endpoints of another Service change until the work is done.
pub(crate) fn under_churn(node: &Node, work: impl FnOnce()) {
    let (end, over) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || churn(node, &over));
        // Dropped when the work is over, also by a panic.
        let _end = end;
        work();
    });
}

fn churn(node: &Node, over: &Receiver<()>) {
    let pause = if is_in_vm() { CHURN_EVERY_IN_VM } else { CHURN_EVERY };
    for round in (1..=200u8).cycle() {
        let endpoint = format!("10.244.3.{round}");
        node.write("churn.yaml", &service("churn", "10.96.0.81", "type: ClusterIP", &[&endpoint, "10.244.1.3"]));
        if over.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// The output of a command on the node, if it succeeds.
fn try_run(node: &Node, words: &str) -> Option<String> {
    let words: Vec<&str> = words.split(' ').collect();
    node.lab.host(topology::NODE).command(&words).ok()
}
