//! How long a connection lives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// A connection that is no stream of events is closed after this time.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Lifetime {
    is_stream: AtomicBool,
    end: Notify,
}

impl Lifetime {
    /// It lives until the client closes it, or until it is ended.
    pub(super) fn become_stream(&self) {
        self.is_stream.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.end.notify_one();
    }

    pub(super) async fn is_over(&self) {
        let ended = self.end.notified();
        tokio::pin!(ended);
        tokio::select! {
            () = &mut ended => return,
            () = tokio::time::sleep(CONNECTION_TIMEOUT) => {}
        }
        if self.is_stream.load(Ordering::Relaxed) {
            ended.await;
        }
    }
}
