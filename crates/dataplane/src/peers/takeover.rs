//! Taking over, step by step: what cannot be removed now is tried again later.

use super::{Connections, Place, Report, Trouble, Variant, detect_beside, remove_all};
use crate::tables::Layout;

/// What the daemon keeps about taking over from kube-proxy, or from another mode of our own.
#[derive(Debug)]
pub struct Takeover {
    by: Successor,
    done: bool,
    told: String,
}

/// Who serves from now on. Our modes have chains of kube-proxy's names, and of each other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    Nftables,
    Iptables(Variant),
    Ipvs(Variant),
    Userspace(Variant),
}

impl Successor {
    /// Which chains of a place are the successor's own.
    pub(super) fn layout(self, place: Place) -> Option<Layout> {
        match (self, place) {
            (Self::Iptables(own), Place::Iptables(variant, _)) if own == variant => Some(crate::iptables::layout()),
            (Self::Ipvs(own), Place::Iptables(variant, _)) if own == variant => Some(crate::ipvs::layout()),
            (Self::Userspace(own), Place::Iptables(variant, _)) if own == variant => Some(crate::userspace::layout()),
            _ => None,
        }
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
        let detection = detect_beside(Some(self.by));
        let mut report = remove_all(&detection.peers, Connections::Keep, Some(self.by));
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
