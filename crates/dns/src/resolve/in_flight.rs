//! Concurrent queries for the same name are sent upstream once. A forwarding loop, where the upstream forwards to us,
//! ends here: the query waits for itself until its deadline.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::cache::{Hit, Key};

pub(super) type Answer = watch::Receiver<Option<Hit>>;

#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Answer>>);

/// The query that is sent upstream for all waiting queries. Dropped without an answer, it wakes them with none.
pub(super) struct Leader {
    in_flight: Arc<InFlight>,
    pub(super) key: Key,
    answer: watch::Sender<Option<Hit>>,
}

impl InFlight {
    /// The answer to wait for, and the leader if there is none yet for this key.
    pub(super) fn join(self: &Arc<Self>, key: Key) -> (Answer, Option<Box<Leader>>) {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = questions.get(&key) {
            return (answer.clone(), None);
        }
        let (sender, receiver) = watch::channel(None);
        questions.insert(key, receiver.clone());
        (receiver, Some(Box::new(Leader { in_flight: self.clone(), key, answer: sender })))
    }
}

impl Leader {
    pub(super) fn publish(&self, hit: Hit) {
        _ = self.answer.send(Some(hit));
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.in_flight.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// `None` if the leader was dropped without an answer.
pub(super) async fn wait(mut answer: Answer) -> Option<Hit> {
    let hit = answer.wait_for(Option::is_some).await.ok()?;
    hit.clone()
}
