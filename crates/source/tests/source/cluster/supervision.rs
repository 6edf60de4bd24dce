//! A watch whose task panics is started again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use portolan_source::cluster::{Cluster, ClusterOptions, WatchState};
use tokio::runtime::Handle;

use super::fake::Fake;
use super::follower::{options, service, tuning};
use super::world::{self, World};

/// The caller's function runs in the task of the watch: while it panics, so does the task.
struct Panicking {
    cluster: Cluster,
    panics: Arc<AtomicBool>,
}

impl Panicking {
    fn follow(fake: &Fake) -> Self {
        let panics = Arc::new(AtomicBool::new(false));
        let flag = panics.clone();
        let notify = move || assert!(!flag.load(Ordering::SeqCst), "this panic is part of the test");
        let options = ClusterOptions { master: Some(format!("http://{}", fake.address)), ..options() };
        let cluster = Cluster::start_tuned(options, tuning(), &Handle::current(), notify).unwrap();
        Self { cluster, panics }
    }

    fn services(&self) -> WatchState {
        self.cluster.connection().into_iter().find(|watch| watch.what == "Services").unwrap()
    }

    async fn until(&self, what: &str, look: impl Fn(&Self) -> bool) {
        let wait = async {
            while !look(self) {
                tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
            }
        };
        tokio::time::timeout(super::PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited for {what}"));
    }

    fn has(&self, name: &str) -> bool {
        self.cluster.snapshot().is_some_and(|snapshot| service(&snapshot, name).is_some())
    }
}

#[tokio::test]
async fn a_watch_that_panics_is_started_again_and_counted() {
    let mut world = World::default();
    world.put(world::service("web", "10.96.0.1"));
    let fake = Fake::start(world).await;
    let follower = Panicking::follow(&fake);
    follower.until("the first snapshot", |it| it.has("web")).await;
    assert_eq!((follower.services().panics, follower.services().is_down), (0, false));

    follower.panics.store(true, Ordering::SeqCst);
    fake.change(|world| world.put(world::service("bad", "10.96.0.2")));
    follower.until("the panic is counted", |it| it.services().panics > 0).await;
    assert!(!follower.services().connected || !follower.services().is_down);

    follower.panics.store(false, Ordering::SeqCst);
    fake.change(|world| world.put(world::service("good", "10.96.0.3")));
    follower.until("changes are followed again", |it| it.has("good")).await;
    follower.until("the watch is up", |it| it.services().connected && !it.services().is_down).await;
}
