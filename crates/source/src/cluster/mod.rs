//! FACTS from a cluster: Services, EndpointSlices, the own Node and ServiceCIDRs, as its API server tells them.
//!
//! Each of these is followed by a task of its own: everything once, then changes. What arrives is turned into the
//! compact form of the snapshot at once, and nothing else of it is kept. While the API server is away, the last
//! snapshot stays; when it is back, the snapshot changes by exactly what happened meanwhile.

mod access;
mod base64;
mod client;
mod credentials;
mod dial;
mod error;
mod events;
mod exec;
mod facts;
mod headers;
mod kubeconfig;
mod messages;
mod pace;
mod request;
mod resource;
mod shared;
mod state;
mod tls;
mod tuning;
mod watcher;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use portolan_model::Snapshot;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use self::access::Access;
use self::credentials::Credentials;
use self::facts::Facts;
use self::pace::Throttle;
use self::request::Asking;
use self::resource::Resource;
use self::shared::Shared;
use self::watcher::Watcher;
use crate::Error;

#[doc(hidden)]
pub use credentials::InCluster;
pub use error::AccessError;
pub use events::{EventKind, EventWriter};
pub use state::{Changes, NodeState, WatchState};
#[doc(hidden)]
pub use tuning::Tuning;

/// Which cluster, who we are to it, and how to ask.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    pub node_name: String,
    pub kubeconfig: Option<PathBuf>,
    /// The API server's address, in place of the kubeconfig's. With neither, we must be a pod.
    pub master: Option<String>,
    pub content_type: ContentType,
    /// Requests a second in the long run, and at once. No rate means no limit.
    pub qps: f32,
    pub burst: u32,
    pub names: Names,
}

/// What is wanted for DNS, besides what a proxy needs. Each wants the one before it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    #[default]
    None,
    /// Headless Services and those of other proxies; the rights of kube-proxy are enough for it.
    OfServices,
    OfNamespaces,
    OfPods,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentType {
    /// And JSON where the server has nothing better.
    #[default]
    Protobuf,
    Json,
}

/// The watches of a cluster. Cheap to clone; they end when the last clone goes.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
    events: EventWriter,
    _tasks: Arc<Tasks>,
}

struct Tasks(Vec<AbortHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

impl Cluster {
    /// Starts the watches. `notify` is called whenever there is a new snapshot, once for everything that arrived
    /// together; it must be quick. Fails only if the credentials cannot be read: a server that does not answer is
    /// waited for.
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
        let credentials = Credentials { kubeconfig, master, in_cluster: tuning.in_cluster.clone() };
        credentials.selected()?;
        let access = Access::new(credentials, Throttle::new(qps, burst), &tuning);
        let shared =
            Arc::new(Shared::new(tuning, access, Facts::new(&node_name, names, SystemTime::now()), Box::new(notify)));
        let (events, queue) = EventWriter::new(&node_name);
        let mut tasks = vec![runtime.spawn(events::write(shared.clone(), queue)).abort_handle()];
        for &resource in Resource::wanted(names) {
            let asking = Asking { resource, url: resource.url(&node_name, names), content_type };
            tasks.push(runtime.spawn(Watcher::new(asking, shared.clone()).run()).abort_handle());
        }
        Ok(Self { shared, events, _tasks: Arc::new(Tasks(tasks)) })
    }

    /// What is known, as soon as all of it has been seen once: Services, EndpointSlices, whether there is a Node of our
    /// name, and ServiceCIDRs or that the server has none.
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.shared.facts().snapshot()
    }

    pub fn node_state(&self) -> NodeState {
        self.shared.facts().node_state()
    }

    /// What changed since the last call.
    pub fn take_changes(&self) -> Changes {
        self.shared.facts().take_changes()
    }

    pub fn events(&self) -> EventWriter {
        self.events.clone()
    }

    /// How each watch is doing.
    pub fn connection(&self) -> Vec<WatchState> {
        self.shared.watches()
    }
}
