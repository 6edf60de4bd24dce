//! Concurrent queries for the same name are sent upstream once. A forwarding loop, where the upstream forwards to us,
//! ends here: the query waits for itself until its deadline.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::cache::{Hit, Key};

type Answer = watch::Receiver<Option<Hit>>;

#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Answer>>);

/// The query that is sent upstream for all waiting queries. Dropped without an answer, it wakes them with none.
pub(super) struct Leader<'a> {
    in_flight: &'a InFlight,
    key: Key,
    answer: watch::Sender<Option<Hit>>,
}

pub(super) enum Turn<'a> {
    Lead(Box<Leader<'a>>),
    Wait(Answer),
}

impl InFlight {
    pub(super) fn join(&self, key: Key) -> Turn<'_> {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = questions.get(&key) {
            return Turn::Wait(answer.clone());
        }
        let (sender, receiver) = watch::channel(None);
        questions.insert(key, receiver);
        Turn::Lead(Box::new(Leader { in_flight: self, key, answer: sender }))
    }
}

impl Leader<'_> {
    pub(super) fn publish(&self, hit: Hit) {
        _ = self.answer.send(Some(hit));
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        self.in_flight.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// `None` if the leader was dropped without an answer.
pub(super) async fn wait(mut answer: Answer) -> Option<Hit> {
    let hit = answer.wait_for(Option::is_some).await.ok()?;
    hit.clone()
}
