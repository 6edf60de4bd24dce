//! Taking over, step by step: what cannot be removed now is tried again later.

use super::{Place, Report, Trouble, Variant, detect, remove};

/// What the daemon keeps about taking over from kube-proxy, or from another mode of our own.
#[derive(Debug)]
pub struct Takeover {
    by: Successor,
    done: bool,
    told: String,
}

/// Who serves from now on. Our iptables mode has the very chains of kube-proxy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    Nftables,
    Iptables(Variant),
}

impl Successor {
    fn owns(self, place: Place) -> bool {
        matches!((self, place), (Self::Iptables(own), Place::Iptables(variant, _)) if own == variant)
    }
}

impl Takeover {
    pub fn new(by: Successor) -> Self {
        Self { by, done: false, told: String::new() }
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Removes what is there of others. To be called after our own rules are committed, and after later syncs
    /// until it is done; once done it does nothing, so that a kube-proxy that is started later is not fought. The
    /// report is given only if it says something that the one before did not.
    pub fn step(&mut self) -> Option<Report> {
        if self.done {
            return None;
        }
        let mut detection = detect();
        detection.peers.retain(|peer| !self.by.owns(peer.place));
        let mut report = remove(&detection.peers);
        report.failed.extend(detection.troubles);
        if self.by != Successor::Nftables {
            remove_own_tables(&mut report);
        }
        self.done = report.is_complete();
        let text = report.to_string();
        let is_news = text != self.told;
        self.told = text;
        is_news.then_some(report)
    }
}

fn remove_own_tables(report: &mut Report) {
    match crate::nftables::cleanup() {
        Ok(count) => report.removed.extend((count > 0).then(|| format!("{count} tables of Portolan's nftables mode"))),
        Err(error) => report.failed.push(Trouble::new("removing the tables named portolan", error)),
    }
}
