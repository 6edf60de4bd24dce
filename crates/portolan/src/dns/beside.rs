//! DNS beside the rules, in this process or in one of its own.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use portolan_model::Snapshot;
use portolan_status::Metrics;
use tokio::runtime::Handle;

use super::serve::{Names, prepare_addresses, without_removed};
use super::worker::{Worker, WorkerCommand};
use crate::flags::DnsUser;
use crate::settings::DnsSettings;

pub enum NodeNames {
    Here(Box<Names>),
    InWorker(Worker),
}

impl NodeNames {
    /// At addresses that this machine may not have yet.
    pub fn start(settings: &DnsSettings, runtime: &Handle) -> anyhow::Result<Self> {
        prepare_addresses(&settings.listen.addresses)?;
        Ok(Self::Here(Box::new(Names::start(settings.clone(), runtime)?)))
    }

    /// In a process of that user, which reads its settings itself.
    pub fn start_worker(
        settings: &DnsSettings,
        config: Option<&Path>,
        user: DnsUser,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        prepare_addresses(&settings.listen.addresses)?;
        let listen = settings.listen.addresses.clone();
        let config = config.map(Path::to_path_buf);
        let command = WorkerCommand { listen, config, user, metrics };
        Ok(Self::InWorker(Worker::start(command).context("starting the DNS process")?))
    }

    /// Withdraws the names of Services that are gone.
    pub fn withdraw(&self, snapshot: &Snapshot) {
        match self {
            Self::Here(names) => names.withdraw(snapshot),
            Self::InWorker(worker) => {
                let kept = worker.published().and_then(|known| without_removed(&known, snapshot));
                kept.iter().for_each(|kept| worker.publish(kept));
            }
        }
    }

    /// After this returns, all answers come from these facts.
    pub fn publish(&self, snapshot: &Snapshot) {
        match self {
            Self::Here(names) => names.publish(snapshot),
            Self::InWorker(worker) => worker.publish(snapshot),
        }
    }

    pub fn use_settings(&mut self, settings: DnsSettings, runtime: &Handle) {
        if let Self::Here(names) = self {
            names.use_settings(settings, runtime);
        }
    }
}
