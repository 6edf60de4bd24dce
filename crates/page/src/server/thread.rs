//! An answer that may block, on a thread of its own: rendering and tracing take more stack than tasks have, and must not delay
//! what else runs on the runtime.

use std::thread;

use tokio::sync::oneshot;

use super::Ask;
use crate::question::{Question, Reply};

const STACK: usize = 2 << 20;

/// `None` if it fails.
pub(super) async fn answered(ask: &Ask, question: Question) -> Option<Reply> {
    let (sender, receiver) = oneshot::channel();
    let ask = ask.clone();
    let run = move || _ = sender.send(ask(&question));
    let started = thread::Builder::new().name("page".into()).stack_size(STACK).spawn(run);
    if let Err(error) = started {
        tracing::warn!("starting a thread for the page: {error}");
    }
    receiver.await.ok()
}
