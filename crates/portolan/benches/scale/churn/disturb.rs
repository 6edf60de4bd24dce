//! What happens during the connections.

use std::time::Duration;

use portolan_dataplane::modes;
use rustix::process::Signal;

use super::clients::Clients;
use super::{CHANGING, MODE, STAYING, web};
use crate::node::Node;

const RESTARTS: usize = 10;
const KILLS: usize = 5;
/// The daemon is killed so long after the configuration file has another mode: before, during and after the change.
const KILLED_AFTER: [u64; 4] = [20, 80, 140, 300];
/// Connections through this mode outlive a daemon that is killed.
const KILLED_MODE: &str = "nftables";
const BETWEEN_ENDPOINT_CHANGES: Duration = Duration::from_millis(50);

enum Disturbance {
    Restart,
    Kill,
    Mode(&'static str),
    KillDuring(&'static str, Duration),
}

pub(super) struct Disturbances<'a> {
    node: &'a Node,
    clients: &'a Clients,
    pub(super) restarts: usize,
    pub(super) kills: usize,
    pub(super) mode_changes: usize,
    path: Vec<&'static str>,
}

impl<'a> Disturbances<'a> {
    pub(super) fn new(node: &'a Node, clients: &'a Clients) -> Self {
        Self { node, clients, restarts: 0, kills: 0, mode_changes: 0, path: vec![MODE] }
    }

    /// Each begins when its share of the connections is done, and the previous one has ended.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let all = schedule();
        for (number, disturbance) in (1..).zip(&all) {
            self.clients.wait_for_share(f64::from(number) / (all.len() + 1) as f64);
            let name = disturbance.to_string();
            self.clients.set_disturbance(name.clone());
            self.cause(disturbance).map_err(|error| format!("{name}: {error}"))?;
            self.clients.set_disturbance(format!("the time after {name}"));
        }
        self.clients.wait_for_share(1.0);
        Ok(())
    }

    fn cause(&mut self, disturbance: &Disturbance) -> Result<(), String> {
        match disturbance {
            Disturbance::Restart => {
                self.restarts += 1;
                self.node.restart(Signal::TERM)
            }
            Disturbance::Kill => {
                self.kills += 1;
                self.node.restart(Signal::KILL)
            }
            Disturbance::Mode(mode) => {
                self.mode_changes += 1;
                self.path.push(mode);
                self.node.change_mode(mode)
            }
            Disturbance::KillDuring(mode, after) => {
                self.kills += 1;
                self.mode_changes += 1;
                self.path.push(mode);
                self.node.write_mode(mode);
                std::thread::sleep(*after);
                self.node.restart(Signal::KILL)
            }
        }
    }

    /// The modes, in their order.
    pub(super) fn path(&self) -> String {
        self.path.join(" -> ")
    }
}

impl std::fmt::Display for Disturbance {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Restart => formatter.write_str("a restart"),
            Self::Kill => formatter.write_str("a kill -9"),
            Self::Mode(mode) => write!(formatter, "the change to mode {mode}"),
            Self::KillDuring(mode, after) => write!(formatter, "a kill -9 {after:?} into the change to mode {mode}"),
        }
    }
}

/// All disturbances, the different ones mixed.
fn schedule() -> Vec<Disturbance> {
    let others = modes::ALL.iter().filter(|mode| mode.name() != MODE && mode.missing().is_none());
    let mut changes = others.map(|mode| [mode.name(), MODE].map(Disturbance::Mode));
    let mut all = Vec::new();
    for number in 0..RESTARTS {
        all.push(Disturbance::Restart);
        if number * KILLS / RESTARTS < (number + 1) * KILLS / RESTARTS {
            all.push(Disturbance::Kill);
            all.extend(changes.next().into_iter().flatten());
        }
    }
    all.extend(changes.flatten());
    let killed = KILLED_AFTER.map(Duration::from_millis);
    all.extend(killed.iter().flat_map(|after| [KILLED_MODE, MODE].map(|mode| Disturbance::KillDuring(mode, *after))));
    all
}

/// Pods come and go as endpoints; they serve all the time.
pub(super) fn change_endpoints(node: &Node, clients: &Clients) {
    for number in 0_usize.. {
        if clients.is_over() {
            return;
        }
        let comes = |index: &usize| number >> index & 1 == 1;
        let changing = (0..CHANGING.len()).filter(comes).map(|index| CHANGING[index]);
        let endpoints: Vec<&str> = STAYING.into_iter().chain(changing).collect();
        node.write_manifest("web", &web(&endpoints));
        clients.note_endpoint_change();
        std::thread::sleep(BETWEEN_ENDPOINT_CHANGES);
    }
}
