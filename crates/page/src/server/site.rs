//! From a request to an answer.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::Ask;
use super::access::Access;
use super::hub::Hub;
use super::lifetime::Lifetime;
use super::response::{EVENTS, PageBody, PageResponse, error, not_allowed, replied, response, whole};
use super::thread::answered;
use crate::assets;
use crate::question::{Query, Question};

/// The longest address of a request: names are much shorter.
const LONGEST_TARGET: usize = 4096;
/// How long a request waits for those before it.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Site {
    access: Access,
    ask: Ask,
    hub: Arc<Hub>,
    /// Questions are answered one at a time: each takes a thread, and may take memory.
    turn: Arc<Semaphore>,
    /// Questions that read all of the kernel leave the others a turn.
    expensive: Arc<Semaphore>,
}

impl Site {
    pub(super) fn new(access: Access, ask: Ask, hub: Arc<Hub>) -> Self {
        let [turn, expensive] = [(); 2].map(|()| Arc::new(Semaphore::new(1)));
        Self { access, ask, hub, turn, expensive }
    }

    pub(super) async fn answer<B>(&self, request: Request<B>, lifetime: Arc<Lifetime>) -> PageResponse {
        if request.uri().path_and_query().is_none_or(|target| target.as_str().len() > LONGEST_TARGET) {
            return error(StatusCode::URI_TOO_LONG, "the address is too long");
        }
        if let Some(refusal) = self.access.refusal(&request) {
            return refusal;
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return not_allowed();
        }
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or(""));
        if let Some(asset) = assets::find(path) {
            return whole(StatusCode::OK, asset.media_type, asset.bytes);
        }
        match (path, request.method()) {
            ("/api/events", &Method::GET) => self.stream(query, lifetime),
            ("/api/events", _) => not_allowed(),
            _ => match Question::parse(path, query) {
                Ok(Some(question)) => self.ask(question).await,
                Ok(None) => error(StatusCode::NOT_FOUND, "there is no such page"),
                Err(mistake) => error(StatusCode::BAD_REQUEST, &mistake),
            },
        }
    }

    async fn ask(&self, question: Question) -> PageResponse {
        let semaphore = if question.is_expensive() { &self.expensive } else { &self.turn };
        let Ok(Ok(_turn)) = timeout(PATIENCE, semaphore.clone().acquire_owned()).await else {
            return error(StatusCode::SERVICE_UNAVAILABLE, "other questions are being answered: try again");
        };
        match answered(&self.ask, question).await {
            Some(reply) => replied(reply),
            None => error(StatusCode::INTERNAL_SERVER_ERROR, "answering failed: see the log of the process"),
        }
    }

    fn stream(&self, query: &str, lifetime: Arc<Lifetime>) -> PageResponse {
        let service = match Query::parse(query) {
            Ok(query) => query.text("service"),
            Err(mistake) => return error(StatusCode::BAD_REQUEST, &mistake),
        };
        match self.hub.subscribe(service, lifetime) {
            Some(events) => response(StatusCode::OK, EVENTS, PageBody::Stream(events)),
            None => error(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open: close one and try again"),
        }
    }
}
