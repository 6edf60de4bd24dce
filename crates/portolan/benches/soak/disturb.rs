//! What happens to a node: churn, restarts, changes of the mode, outages of the API server, damage by other programs.

use std::ops::Range;
use std::time::{Duration, Instant};

use portolan_dataplane::modes;
use rustix::process::Signal;

use crate::cluster::{Cluster, SERVICES};

/// Five percent of the Services a minute.
const CHURN: Duration = Duration::from_millis(60_000 * 20 / SERVICES as u64);
const RESTART: Duration = Duration::from_secs(150);
const MODE: Duration = Duration::from_secs(210);
/// One in each mode, always as long after the change of the mode: soon after an outage the daemon has less memory allocated than
/// later, and the memory of each time in nftables mode is compared with that of the others.
const OUTAGE: Duration = MODE;
const FIRST_OUTAGE: Duration = Duration::from_secs(60);
const OUTAGE_LASTS: Duration = Duration::from_secs(20);
/// Damage is repaired within this time.
const REPAIR: Duration = Duration::from_secs(1);
/// A daemon that was restarted answers DNS queries within this time, if the API server is there.
const START: Duration = Duration::from_secs(3);
const DAMAGE: Duration = Duration::from_secs(45);
/// Modes whose connections outlive the daemon.
const MODES: [&str; 2] = ["nftables", "iptables"];

pub(crate) struct Disturbances<'a> {
    cluster: &'a Cluster,
    is_restarting: bool,
    pub(crate) changes: u32,
    pub(crate) restarts: u32,
    pub(crate) modes: u32,
    pub(crate) outages: u32,
    pub(crate) damages: u32,
    /// When rules were damaged: new connections may fail.
    pub(crate) damaged: Vec<Range<Instant>>,
    /// When no daemon ran, or one without the API server: it knows no names yet.
    pub(crate) nameless: Vec<Range<Instant>>,
}

impl<'a> Disturbances<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        let (damaged, nameless) = (Vec::new(), Vec::new());
        Self {
            cluster,
            is_restarting: true,
            changes: 0,
            restarts: 0,
            modes: 0,
            outages: 0,
            damages: 0,
            damaged,
            nameless,
        }
    }

    pub(crate) fn run_for(&mut self, duration: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < duration {
            let is_due = |period: Duration, count: u32| begin.elapsed() > period * (count + 1);
            let is_outage_due = |count: u32| begin.elapsed() > FIRST_OUTAGE + OUTAGE * count;
            // The last daemon stays for most of the time: its memory shows what a long life does.
            self.is_restarting = begin.elapsed() < duration / 3;
            if self.is_restarting && is_due(RESTART, self.restarts) {
                self.restart();
            }
            if is_due(MODE, self.modes) {
                self.change_mode();
            }
            if is_outage_due(self.outages) {
                self.cut_api_server();
            }
            if is_due(DAMAGE, self.damages) {
                self.damage();
            }
            if is_due(CHURN, self.changes) {
                self.churn();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn churn(&mut self) {
        self.cluster.churn((self.changes * 7919) % SERVICES);
        self.changes += 1;
    }

    /// Every other time without notice.
    fn restart(&mut self) {
        let begin = Instant::now();
        self.cluster.daemon.restart(if self.restarts.is_multiple_of(2) { Signal::TERM } else { Signal::KILL });
        self.restarts += 1;
        self.nameless.push(begin..Instant::now() + START);
    }

    fn change_mode(&mut self) {
        self.modes += 1;
        self.cluster.daemon.write_mode(self.mode());
    }

    fn mode(&self) -> &'static str {
        MODES[self.modes as usize % MODES.len()]
    }

    /// As long as there are restarts, every other time the daemon is restarted meanwhile: the rules must stay without it.
    fn cut_api_server(&mut self) {
        let cluster = self.cluster;
        // A daemon that was just restarted has synchronized before.
        while cluster.daemon.verify().is_err() {
            std::thread::sleep(Duration::from_millis(100));
        }
        let mut stage = cluster.stage();
        stage.control_plane.kill_api_server();
        std::thread::sleep(OUTAGE_LASTS / 2);
        let restarted = Instant::now();
        let restarts = self.is_restarting && self.outages.is_multiple_of(2);
        if restarts {
            self.restart();
        }
        std::thread::sleep(OUTAGE_LASTS / 2);
        stage.control_plane.start_api_server().expect("the API server starts again");
        self.outages += 1;
        while cluster.daemon.verify().is_err() {
            std::thread::sleep(Duration::from_millis(100));
        }
        if restarts {
            self.nameless.push(restarted..Instant::now() + START);
        }
    }

    /// What the active mode has programmed, damaged by another program. A daemon that starts or changes its mode is left
    /// alone: nothing could repair the rules before it has synchronized.
    fn damage(&mut self) {
        self.damages += 1;
        if self.cluster.daemon.verify().is_err() {
            return;
        }
        let mode = modes::named(self.mode()).expect("the mode is registered");
        let begin = Instant::now();
        _ = self.cluster.daemon.node().command(mode.damage());
        self.damaged.push(begin..Instant::now() + REPAIR);
    }
}
