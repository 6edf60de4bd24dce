//! Starts a watch again that has panicked: one bug must not freeze a resource for the life of the process.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::follow::Watcher;
use crate::cluster::pace::Backoff;
use crate::cluster::request::Requests;
use crate::cluster::shared::Shared;

/// Watches a resource for as long as the returned future lives.
pub(in crate::cluster) async fn supervise(requests: Requests, shared: Arc<Shared>) {
    let mut backoff = Backoff::new(shared.tuning.first_pause, shared.tuning.longest_pause);
    // The task ends with the set.
    let mut task = JoinSet::new();
    loop {
        task.spawn(Watcher::new(requests.clone(), shared.clone()).run());
        match task.join_next().await {
            Some(Err(error)) if error.is_panic() => {}
            _ => return,
        }
        let pause = backoff.pause();
        shared.panicked(requests.resource, pause);
        tokio::time::sleep(pause).await;
    }
}
