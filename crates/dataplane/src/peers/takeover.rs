//! Takeover from kube-proxy or from another mode, step by step: what cannot be removed now is retried.

use super::{Connections, Owned, RemovalError, Report, find, remove_all};

/// The state of a takeover by the active mode.
#[derive(Debug)]
pub struct Takeover {
    owned: Owned,
    done: bool,
    last_report: String,
}

impl Takeover {
    pub fn new(owned: Owned) -> Self {
        Self { owned, done: false, last_report: String::new() }
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Removes what other proxies and modes have programmed. Call it after our own rules are committed, and after later
    /// syncs until it is done. Once done it does nothing, so that it does not fight a kube-proxy that starts later.
    /// Returns the report only if it differs from the previous one.
    pub fn step(&mut self) -> Option<Report> {
        if self.done {
            return None;
        }
        let detection = find(|_| true, Some(&self.owned));
        let mut report = remove_all(&detection.peers, Connections::Keep, Some(&self.owned));
        let (unreadable, failed): (Vec<_>, Vec<_>) = detection.errors.into_iter().partition(RemovalError::is_final);
        report.kept.extend(unreadable.iter().map(|error| format!("what cannot be read: {error}")));
        report.failed.extend(failed);
        self.done = report.is_complete();
        let text = report.to_string();
        let is_news = text != self.last_report;
        self.last_report = text;
        is_news.then_some(report)
    }
}
