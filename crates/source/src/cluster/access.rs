//! Requests to the API server, with credentials that are read again whenever their files have changed.

use std::sync::Arc;
use std::time::Duration;

use http::{Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Mutex;

use super::client::{Body, Client, Request};
use super::credentials::{Credentials, Login};
use super::error::{AccessError, hint};
use super::pace::Throttle;
use super::tuning::Tuning;

/// How long before its end a credential is renewed.
const BEFORE_EXPIRY: SignedDuration = SignedDuration::from_secs(60);

pub(super) struct Access {
    credentials: Credentials,
    throttle: Throttle,
    keepalive: Duration,
    answer: Duration,
    current: Mutex<Option<Current>>,
}

struct Current {
    fingerprint: u64,
    client: Arc<Client>,
    /// A plugin has issued the credential, which may end without any file changing.
    is_from_plugin: bool,
    expires: Option<Timestamp>,
}

impl Current {
    fn is_good(&self, fingerprint: u64) -> bool {
        let is_near = |expires: Timestamp| Timestamp::now().duration_until(expires) <= BEFORE_EXPIRY;
        self.fingerprint == fingerprint && !self.expires.is_some_and(is_near)
    }
}

impl Access {
    pub(super) fn new(credentials: Credentials, throttle: Throttle, tuning: &Tuning) -> Self {
        let (keepalive, answer) = (tuning.keepalive, tuning.answer);
        Self { credentials, throttle, keepalive, answer, current: Mutex::new(None) }
    }

    /// How long an answer may take.
    pub(super) fn limit(&self) -> Duration {
        self.answer
    }

    /// Sends a request when its turn has come, and waits for the beginning of the answer.
    pub(super) async fn send(&self, request: Request) -> Result<Response<Body>, String> {
        self.throttle.take().await;
        self.send_now(request).await
    }

    /// For the further pages of a list, which the server's own pace limits.
    pub(super) async fn send_now(&self, request: Request) -> Result<Response<Body>, String> {
        let client = self.client().await.map_err(|error| error.to_string())?;
        let answer = match tokio::time::timeout(self.answer, client.send(request)).await {
            Err(_) => Err(format!("no answer within {:?}", self.answer)),
            Ok(Err(reason)) => Err(format!("{reason}{}", hint(&reason))),
            Ok(Ok(response)) => Ok(response),
        };
        let (has_failed, code) = (answer.is_err(), answer.as_ref().ok().map(Response::status));
        self.forget(|it| code == Some(StatusCode::UNAUTHORIZED) || has_failed && it.is_from_plugin).await;
        answer
    }

    async fn forget(&self, is_stale: impl Fn(&Current) -> bool) {
        self.current.lock().await.take_if(|current| is_stale(current));
    }

    async fn client(&self) -> Result<Arc<Client>, AccessError> {
        let mut current = self.current.lock().await;
        let fingerprint = self.credentials.fingerprint();
        if let Some(known) = current.as_ref().filter(|known| known.is_good(fingerprint)) {
            return Ok(known.client.clone());
        }
        let login = load(self.credentials.clone()).await?;
        let (is_from_plugin, expires) = (login.is_from_plugin, login.expires);
        let client = Arc::new(Client::new(login, self.keepalive));
        *current = Some(Current { fingerprint, client: client.clone(), is_from_plugin, expires });
        Ok(client)
    }
}

/// A plugin is a program that is run and waited for, which must not keep the watches waiting. Files are read at once: a
/// thread for them would cost memory for as long as the daemon runs.
async fn load(credentials: Credentials) -> Result<Login, AccessError> {
    if !credentials.has_plugin() {
        return credentials.load();
    }
    let loaded = tokio::task::spawn_blocking(move || credentials.load()).await;
    loaded.unwrap_or_else(|failure| Err(AccessError::Interrupted { reason: failure.to_string() }))
}
