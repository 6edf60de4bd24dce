//! The source of the daemon's facts: files, or an API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use anyhow::Context;
use portolan_model::Snapshot;
use portolan_source::cluster::{Changes, Cluster, ClusterOptions, ContentType, NodeState};
use portolan_source::{Manifests, Report};
use tokio::runtime::Handle;

use super::events::{self, Event};
use crate::control::{LookUpNode, WatchStates};
use crate::settings::{self, ClusterSettings};

pub(crate) enum Facts {
    Manifests(Box<Manifests>),
    Cluster { cluster: Cluster, is_notified: Arc<AtomicBool> },
}

impl Facts {
    /// Starts to watch; every change is notified on the channel.
    pub(crate) fn open(wanted: &settings::Facts, runtime: &Handle, events: &SyncSender<Event>) -> anyhow::Result<Self> {
        match wanted {
            settings::Facts::Manifests(options) => {
                events::watch_manifests(&options.paths, events.clone())?;
                Ok(Self::Manifests(Box::new(Manifests::new(options.clone()))))
            }
            settings::Facts::Cluster(settings) => Self::open_cluster(settings, runtime, events.clone()),
        }
    }

    fn open_cluster(settings: &ClusterSettings, runtime: &Handle, events: SyncSender<Event>) -> anyhow::Result<Self> {
        let is_notified = Arc::new(AtomicBool::new(false));
        let flag = is_notified.clone();
        let notify = move || notify_once(&flag, &events);
        let cluster = Cluster::start(options(settings), runtime, notify).context("watching the API server")?;
        Ok(Self::Cluster { cluster, is_notified })
    }

    /// Reads again what may have changed.
    pub(crate) fn refresh(&mut self) {
        match self {
            Self::Manifests(manifests) => report(&manifests.reload_quickly()),
            Self::Cluster { .. } => {}
        }
    }

    /// Stores what a restart needs. Call it after the change is in force, which must not wait for the disk.
    pub(crate) fn keep(&mut self) {
        if let Self::Manifests(manifests) = self
            && let Some(problem) = manifests.save()
        {
            tracing::error!("{problem}");
        }
    }

    /// `None` until all facts for a first sync are known.
    pub(crate) fn snapshot(&self) -> Option<Snapshot> {
        match self {
            Self::Manifests(manifests) => Some(manifests.snapshot()),
            Self::Cluster { cluster, is_notified } => {
                // Changes from here on are notified again.
                is_notified.store(false, Ordering::SeqCst);
                cluster.snapshot()
            }
        }
    }

    pub(crate) fn take_changes(&self) -> Changes {
        match self {
            Self::Manifests(_) => Changes::default(),
            Self::Cluster { cluster, .. } => cluster.take_changes(),
        }
    }

    /// Whether load balancers may send new traffic to this node.
    pub(crate) fn is_node_eligible(&self) -> bool {
        match self {
            Self::Manifests(_) => true,
            Self::Cluster { cluster, .. } => {
                matches!(cluster.node_state(), NodeState::Present { deleting: false, to_be_deleted_taint: false })
            }
        }
    }

    /// Whether no watch is down after a crash.
    pub(crate) fn is_watching(&self) -> bool {
        self.cluster().is_none_or(|cluster| cluster.connection().iter().all(|watch| !watch.is_down))
    }

    /// Looks up the addresses of a Node that the snapshot does not have.
    pub(crate) fn node_lookup(&self) -> LookUpNode {
        match self.cluster().cloned() {
            Some(cluster) => Arc::new(move |name| cluster.node_addresses(name)),
            None => Arc::new(|_| Vec::new()),
        }
    }

    /// The state of each watch.
    pub(crate) fn watch_states(&self) -> WatchStates {
        match self.cluster().cloned() {
            Some(cluster) => Arc::new(move || cluster.connection()),
            None => Arc::new(Vec::new),
        }
    }

    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        match self {
            Self::Manifests(_) => None,
            Self::Cluster { cluster, .. } => Some(cluster),
        }
    }
}

fn options(settings: &ClusterSettings) -> ClusterOptions {
    ClusterOptions {
        node_name: settings.node_name.clone(),
        kubeconfig: settings.kubeconfig.clone(),
        master: settings.master.clone(),
        content_type: if settings.content_type_json { ContentType::Json } else { ContentType::Protobuf },
        qps: settings.qps,
        burst: settings.burst,
        names: settings.names,
    }
}

/// One event stands for all changes until the snapshot is taken. A full channel wakes its reader anyway.
fn notify_once(is_notified: &AtomicBool, events: &SyncSender<Event>) {
    if !is_notified.swap(true, Ordering::SeqCst)
        && let Err(TrySendError::Full(_)) = events.try_send(Event::Facts)
    {
        is_notified.store(false, Ordering::SeqCst);
    }
}

fn report(report: &Report) {
    for problem in &report.new_problems {
        tracing::error!("{problem}");
    }
    for ignored in &report.ignored {
        tracing::info!("{ignored}");
    }
}
