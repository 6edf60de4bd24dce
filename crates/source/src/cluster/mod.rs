//! The snapshot of a cluster: Services, EndpointSlices, this Node and ServiceCIDRs, watched at its API server.
//!
//! One task watches each resource: a full list, then changes. Every object is converted to the compact form of the
//! snapshot as it arrives, and dropped. While the API server is unreachable, the last snapshot stays in force; when it is
//! back, the snapshot changes by exactly what changed meanwhile.

mod access;
mod base64;
mod client;
mod credentials;
mod dial;
pub(crate) mod error;
mod event_queue;
mod events;
mod exec;
mod facts;
pub(crate) mod fuzz;
mod headers;
mod kubeconfig;
mod options;
mod other_nodes;
mod pace;
mod remote;
mod request;
mod resource;
mod selected;
mod server;
mod shared;
mod state;
mod tls;
mod tuning;
mod watcher;
mod wire;

use std::sync::Arc;
use std::time::SystemTime;

use portolan_model::Snapshot;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use self::access::Access;
use self::credentials::Credentials;
use self::facts::Facts;
use self::pace::Throttle;
use self::request::Requests;
use self::resource::Resource;
use self::shared::Shared;
use self::watcher::supervise;
use crate::error::Error;

#[doc(hidden)]
pub use credentials::InCluster;
pub use error::AccessError;
pub use events::{EventKind, EventWriter};
pub use options::{ClusterOptions, ContentType, Names};
pub use remote::{Input, Outcome, RemoteCommand, Sink};
pub use selected::Choice;
pub use server::{ApiServer, NodeObject, PodObject, RequestError, ServerOptions};
pub use state::{Changes, NodeState, WatchState};
#[doc(hidden)]
pub use tuning::Tuning;

/// The watches of a cluster. Cheap to clone; they end when the last clone is dropped.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    events: EventWriter,
    runtime: Handle,
    _tasks: Arc<Tasks>,
}

struct Tasks(Vec<AbortHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Cluster {
    /// Starts the watches. `notify` is called after every batch of events that changes the snapshot; it must not block.
    /// Fails only if the credentials cannot be read: an unreachable server is retried.
    pub fn start(
        options: ClusterOptions,
        runtime: &Handle,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        Self::start_tuned(options, Tuning::default(), runtime, notify)
    }

    #[doc(hidden)]
    pub fn start_tuned(
        options: ClusterOptions,
        tuning: Tuning,
        runtime: &Handle,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let ClusterOptions { node_name, kubeconfig, master, content_type, qps, burst, names } = options;
        let credentials = Credentials {
            kubeconfig: kubeconfig.into_iter().collect(),
            choice: Choice::default(),
            master,
            in_cluster: tuning.in_cluster.clone(),
            plugin_timeout: tuning.plugin,
        };
        credentials.selected()?;
        let access = Access::new(credentials, Throttle::new(qps, burst), &tuning);
        let (events, queue) = EventWriter::new(&node_name);
        let facts = Facts::new(&node_name, names, SystemTime::now()).with_events(events.clone());
        let shared = Arc::new(Shared::new(tuning, access, facts, Box::new(notify)));
        let mut tasks = vec![runtime.spawn(event_queue::write(shared.clone(), queue)).abort_handle()];
        for &resource in Resource::wanted(names) {
            let requests = Requests { resource, url: resource.url(&node_name, names), content_type };
            tasks.push(runtime.spawn(supervise(requests, shared.clone())).abort_handle());
        }
        Ok(Self { shared, events, runtime: runtime.clone(), _tasks: Arc::new(Tasks(tasks)) })
    }

    /// `None` until every watched resource has been listed once. A server may lack ServiceCIDRs.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.shared.facts().snapshot()
    }

    pub fn node_state(&self) -> NodeState {
        self.shared.facts().node_state()
    }

    /// The changes since the last call.
    pub fn take_changes(&self) -> Changes {
        self.shared.facts().take_changes()
    }

    pub fn events(&self) -> EventWriter {
        self.events.clone()
    }

    /// The state of each watch.
    pub fn connection(&self) -> Vec<WatchState> {
        self.shared.watches()
    }
}
