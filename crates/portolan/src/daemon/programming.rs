//! The plan is put into the kernel, and what follows from the outcome.

use std::time::Instant;

use portolan_dataplane::{SyncReport, Trust};
use portolan_model::Family;

use super::Daemon;
use crate::control::Published;
use crate::loopback::LoopbackRouting;
use crate::node_setup::{self, Outcome};

impl Daemon {
    /// Puts the plan into the kernel. Names are withdrawn before the rules that serve them go, and published after.
    pub(super) fn program(&mut self, trust: Trust) -> anyhow::Result<SyncReport> {
        let begin = Instant::now();
        self.withdraw_names();
        self.follow_loopback(false);
        let outcome = self.engine.sync(&self.plan, trust);
        self.observers.note_rules(self.engine.mode.rule_tally());
        self.observers.note_balancers(&self.engine.mode.balancer_failures());
        self.observers.status.metrics.unaccelerated_frontends(self.engine.mode.unaccelerated_frontends());
        let report = outcome?;
        let arrival = self.observers.waiting_since();
        self.observers.note_sync(&report, begin.elapsed(), &self.plan);
        self.flows.follow(&report, &self.plan);
        self.connections.follow(&report, &self.plan, self.engine.mode.listeners(), self.engine.retired());
        self.follow_loopback(true);
        self.publish(|published, daemon| published.plan = Some(daemon.plan.clone()));
        // After the plan, which readers of the change look at.
        self.recorder.note_sync(&self.plan, &report, arrival);
        self.publish_names();
        Ok(report)
    }

    /// Packets from 127.0.0.1 may leave the node only while the rules keep others from coming in.
    fn follow_loopback(&mut self, is_synced: bool) {
        let routing = LoopbackRouting::beside(&self.settings.control_socket);
        let outcome = match (self.plan.node.family(Family::V4).loopback_node_ports, is_synced) {
            (true, true) => routing.allow(),
            (false, false) => routing.restore().map(drop),
            _ => return,
        };
        let problem = outcome.err().map(|error| format!("{error:#}"));
        // Every sync tries again.
        if let Some(problem) = problem.as_ref().filter(|_| problem != self.loopback_problem) {
            tracing::error!("{problem}");
        }
        self.loopback_problem = problem;
    }

    pub(super) fn publish(&self, change: impl FnOnce(&mut Published, &Self)) {
        change(&mut self.published.lock().expect("no thread panics while publishing"), self);
    }

    /// One family may have failed while the other is in force.
    pub(super) fn note_success(&mut self, synced: &SyncReport, trust: Trust) {
        if let Some(failure) = &synced.failure {
            return self.note_failure(&anyhow::Error::msg(failure.clone()));
        }
        let was_compared = synced.full || trust > Trust::Notified;
        self.schedule.succeeded(Instant::now(), self.periods(), was_compared);
        if trust == Trust::Notified {
            self.schedule.repaired(Instant::now());
        }
        if synced.unfinished {
            self.schedule.continue_at(Instant::now());
        }
    }

    pub(super) fn note_failure(&mut self, error: &anyhow::Error) {
        if error.downcast_ref().is_some_and(portolan_dataplane::Error::is_awaited) {
            return self.note_awaited(error.to_string());
        }
        let wait = self.schedule.failed(Instant::now(), self.periods());
        tracing::error!("programming the kernel: {error:#}; retrying in {wait:?}");
        self.recorder.note_failure(&format!("{error:#}"));
        self.observers.status.sync_failed();
    }

    /// It is looked for every second, and the log says so once.
    fn note_awaited(&mut self, what: String) {
        self.schedule.look_again(Instant::now(), self.periods());
        if self.awaited.as_ref() != Some(&what) {
            tracing::warn!("{what}; waiting for it");
            self.recorder.note_failure(&what);
        }
        self.awaited = Some(what);
    }

    pub(super) fn log_sync(&mut self, synced: &SyncReport) {
        if synced.repaired > 0 {
            tracing::warn!("repaired {} objects that another process had changed", synced.repaired);
        }
        if synced.objects > 0 {
            let SyncReport { objects, services, kernel_time, .. } = synced;
            tracing::debug!("wrote {objects} objects of {services} Service ports in {kernel_time:?}");
        }
        if !self.is_ready {
            self.is_ready = true;
            portolan_kernel::release_unused_memory();
            let resident = portolan_kernel::resident_bytes().unwrap_or(0) / 1_000_000;
            tracing::info!(
                "ready: {} Service ports, {} objects written, {} ms after the start, {} ms of it in the kernel, {resident} MB resident",
                self.plan.services.len(),
                synced.objects,
                self.start.elapsed().as_millis(),
                synced.kernel_time.as_millis(),
            );
        }
    }

    /// The rules that were written have loaded what the setup waits for.
    pub(super) fn set_up_again(&mut self) {
        if self.setup == Outcome::Waiting {
            self.setup = node_setup::apply(&self.settings);
        }
    }

    /// Removes the rules of kube-proxy and of other modes, once ours are in force.
    pub(super) fn take_over(&mut self) {
        let Some(report) = self.takeover.step() else { return };
        report.removed.iter().for_each(|what| tracing::info!("takeover: removed {what}"));
        report.kept.iter().for_each(|what| tracing::warn!("takeover: kept {what}"));
        report.failed.iter().for_each(|what| tracing::error!("takeover: {what}; retrying"));
    }

    /// Closes the listeners of earlier modes once the takeover has removed the rules that lead to them.
    pub(super) fn close_retired(&mut self) {
        if self.takeover.is_done()
            && let Err(error) = self.engine.close_retired()
        {
            tracing::error!("closing the listeners of the previous mode: {error:#}");
        }
    }
}
