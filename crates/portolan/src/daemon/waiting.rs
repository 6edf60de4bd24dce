//! From events to what is due next.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use portolan_balance::Sighting;
use portolan_dataplane::Trust;

use super::events::{Event, Forget};
use super::leaving::Ending;
use super::schedule::Urgency;
use super::{Daemon, EVENTS};

/// What is due next.
#[derive(Default)]
pub(super) struct Due {
    pub(super) settings: bool,
    pub(super) refresh: bool,
    pub(super) trust: Trust,
    pub(super) end: Option<Ending>,
    pub(super) urgency: Urgency,
}

impl Daemon {
    /// Gathers events until the next turn is due. Those that are queued by then are part of it.
    pub(super) fn wait(&mut self, events: &Receiver<Event>) -> Due {
        let mut due = Due::default();
        let mut late = 0;
        // A source that never stops sending must not delay the turn.
        while due.end.is_none() && late <= EVENTS {
            let next = self.schedule.next(due.urgency, self.balance.next());
            let left = next.saturating_duration_since(Instant::now());
            late += usize::from(left.is_zero());
            match events.recv_timeout(left) {
                Ok(event) => self.note(event, &mut due),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => due.end = Some(Ending::Stopped),
            }
        }
        if self.schedule.is_comparison_due(Instant::now()) {
            due.trust = due.trust.max(Trust::Generation);
            due.refresh = true;
        }
        due
    }

    fn note(&mut self, event: Event, due: &mut Due) {
        if self.is_news(event, due) {
            self.recorder.note_event();
            self.observers.status.sync_queued();
            due.urgency = due.urgency.max(Urgency::Change);
        }
    }

    /// Returns whether there is something to sync.
    fn is_news(&mut self, event: Event, due: &mut Due) -> bool {
        match event {
            Event::Facts => due.refresh = true,
            Event::Settings => due.settings = true,
            Event::Addresses(addresses) => self.addresses = addresses,
            Event::Stop => due.end = Some(Ending::Stopped),
            Event::Replaced(replacement) => due.end = self.give_way(replacement),
            Event::Forget(forget) => self.forget(&forget),
            Event::Sighting(sighting) => return self.note_sighting(*sighting, due),
            // A sync has repaired it since it was noticed.
            Event::Foreign(change) if change.is_compared() => return false,
            Event::Foreign(change) => {
                if due.urgency != Urgency::Repair {
                    tracing::warn!("{change}; comparing with the plan");
                }
                self.recorder.note_drift(&change);
                (due.trust, due.urgency) = (due.trust.max(change.trust()), Urgency::Repair);
            }
        }
        true
    }

    /// Returns whether the plan changes. What does not answer is left out at once.
    fn note_sighting(&mut self, sighting: Sighting, due: &mut Due) -> bool {
        let (verdicts, is_changed) = self.balance.note(sighting, |client| self.plan.is_inside(client));
        verdicts.iter().for_each(|verdict| self.observers.note_verdict(verdict));
        if !verdicts.is_empty() {
            due.urgency = Urgency::Repair;
        }
        is_changed
    }

    fn forget(&mut self, forget: &Forget) {
        _ = forget.done.send(self.engine.mode.forget_counts(&forget.pairs));
    }
}
