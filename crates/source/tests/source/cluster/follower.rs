//! A cluster that is watched, and helpers to examine its snapshot.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::{Service, ServiceName, Slice, Snapshot};
use portolan_source::cluster::{Cluster, ClusterOptions, ContentType, InCluster, Names, Tuning};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::fake::Fake;

pub(crate) struct Follower {
    pub(crate) cluster: Cluster,
    notified: watch::Receiver<u64>,
}

impl Follower {
    /// By `--master`, without any credentials.
    pub(crate) fn of(fake: &Fake) -> Self {
        Self::tuned(fake, tuning())
    }

    pub(crate) fn tuned(fake: &Fake, tuning: Tuning) -> Self {
        let options = ClusterOptions { master: Some(format!("http://{}", fake.address)), ..options() };
        Self::start(options, tuning)
    }

    pub(crate) fn with_kubeconfig(path: impl Into<PathBuf>) -> Self {
        Self::start(ClusterOptions { kubeconfig: Some(path.into()), ..options() }, tuning())
    }

    pub(crate) fn start(options: ClusterOptions, tuning: Tuning) -> Self {
        let (sender, notified) = watch::channel(0);
        let notify = move || sender.send_modify(|count| *count += 1);
        Self { cluster: Cluster::start_tuned(options, tuning, &Handle::current(), notify).unwrap(), notified }
    }

    /// How often there was news.
    pub(crate) fn notifications(&self) -> u64 {
        *self.notified.borrow()
    }

    pub(crate) async fn until(&self, what: &str, look: impl Fn(&Snapshot) -> bool) -> Snapshot {
        let mut notified = self.notified.clone();
        let wait = async {
            loop {
                if let Some(snapshot) = self.cluster.snapshot().filter(&look) {
                    return snapshot;
                }
                notified.changed().await.unwrap();
            }
        };
        let late = || format!("waited for {what}: {:?} {:?}", self.cluster.snapshot(), self.cluster.connection());
        tokio::time::timeout(super::PATIENCE, wait).await.unwrap_or_else(|_| panic!("{}", late()))
    }

    pub(crate) async fn ready(&self) -> Snapshot {
        self.until("the first snapshot", |_| true).await
    }

    /// Waits until the last error of one of the watches contains a text.
    pub(crate) async fn fails_with(&self, text: &str) -> String {
        let wait = async {
            loop {
                let errors: Vec<String> = self.errors();
                if let Some(error) = errors.iter().find(|error| error.contains(text)) {
                    return error.clone();
                }
                tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
            }
        };
        let late = || format!("waited for an error about {text}: {:?}", self.errors());
        tokio::time::timeout(super::PATIENCE, wait).await.unwrap_or_else(|_| panic!("{}", late()))
    }

    fn errors(&self) -> Vec<String> {
        self.cluster.connection().into_iter().filter_map(|watch| watch.last_error).collect()
    }
}

pub(crate) fn options() -> ClusterOptions {
    ClusterOptions {
        names: Names::None,
        node_name: "here".to_owned(),
        kubeconfig: None,
        master: None,
        content_type: ContentType::Protobuf,
        qps: 0.0,
        burst: 0,
    }
}

/// As in earnest, but in a hurry.
pub(crate) fn tuning() -> Tuning {
    Tuning {
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_millis(20),
        absent_pause: Duration::from_secs(60),
        in_cluster: InCluster { host: None, port: None, service_account: "/nowhere".into() },
        ..Tuning::default()
    }
}

pub(crate) fn service(snapshot: &Snapshot, name: &str) -> Option<Arc<Service>> {
    snapshot.services.get(&ServiceName::new("default", name)).cloned()
}

pub(crate) fn slices(snapshot: &Snapshot, service: &str) -> Vec<Arc<Slice>> {
    snapshot.slices.get(&ServiceName::new("default", service)).map(|slices| slices.0.to_vec()).unwrap_or_default()
}

/// All addresses behind a Service.
pub(crate) fn addresses(snapshot: &Snapshot, service: &str) -> Vec<String> {
    let slices = slices(snapshot, service);
    slices.iter().flat_map(|slice| slice.endpoints.iter().map(|it| it.address.to_string())).collect()
}
