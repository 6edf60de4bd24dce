//! The same question asked by many at once is asked of others once. A question that comes back to us, because the server
//! that we ask asks us, waits for itself here until its time is up, instead of going round and round.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

use crate::cache::{Hit, Key};

type Answer = watch::Receiver<Option<Hit>>;

#[derive(Debug, Default)]
pub(super) struct InFlight(Mutex<HashMap<Key, Answer>>);

/// Who asks for all. Dropped without an answer, it lets the others know that there is none.
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

/// `None` if whoever asked has given up.
pub(super) async fn wait(mut answer: Answer) -> Option<Hit> {
    let told = answer.wait_for(Option::is_some).await.ok()?;
    told.clone()
}
