//! Taking over, step by step: what cannot be removed now is tried again later.

use super::{Report, detect, remove};

/// What the daemon keeps about taking over from kube-proxy.
#[derive(Debug, Default)]
pub struct Takeover {
    done: bool,
    told: String,
}

impl Takeover {
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Removes what is there of kube-proxy's. To be called after our own rules are committed, and after later syncs
    /// until it is done; once done it does nothing, so that a kube-proxy that is started later is not fought. The
    /// report is given only if it says something that the one before did not.
    pub fn step(&mut self) -> Option<Report> {
        if self.done {
            return None;
        }
        let detection = detect();
        let mut report = remove(&detection.peers);
        report.failed.extend(detection.troubles);
        self.done = report.is_complete();
        let text = report.to_string();
        let is_news = text != self.told;
        self.told = text;
        is_news.then_some(report)
    }
}
