//! The client by which the API server is asked, made anew whenever its files have changed.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::client::{Body, ConfigExt};
use kube_client::{Client, Config};
use tokio::sync::Mutex;
use tower::{BoxError, ServiceBuilder};

use super::credentials::Credentials;
use super::error::{AccessError, chain, hint};
use super::pace::Throttle;
use super::tuning::Tuning;

pub(super) struct Access {
    credentials: Credentials,
    throttle: Throttle,
    keepalive: Duration,
    answer: Duration,
    current: Mutex<Option<Current>>,
}

struct Current {
    fingerprint: u64,
    client: Client,
    /// A program gave us what we show, and it may have expired without any file changing.
    is_from_plugin: bool,
}

impl Access {
    pub(super) fn new(credentials: Credentials, throttle: Throttle, tuning: &Tuning) -> Self {
        let (keepalive, answer) = (tuning.keepalive, tuning.answer);
        Self { credentials, throttle, keepalive, answer, current: Mutex::new(None) }
    }

    /// Sends a request when its turn has come, and waits for the beginning of the answer.
    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, String> {
        self.throttle.take().await;
        self.send_now(request).await
    }

    /// For the further pages of a list, which the server's own pace limits.
    pub(super) async fn send_now(&self, request: Request<Body>) -> Result<Response<Body>, String> {
        let client = self.client().await.map_err(|error| error.to_string())?;
        let answer = match tokio::time::timeout(self.answer, client.send(request)).await {
            Err(_) => Err(format!("no answer within {:?}", self.answer)),
            Ok(Err(error)) => Err(format!("{}{}", chain(&error), hint(&error))),
            Ok(Ok(response)) => Ok(response),
        };
        let (has_failed, code) = (answer.is_err(), answer.as_ref().ok().map(Response::status));
        self.forget(|it| code == Some(StatusCode::UNAUTHORIZED) || has_failed && it.is_from_plugin).await;
        answer
    }

    async fn forget(&self, is_stale: impl Fn(&Current) -> bool) {
        self.current.lock().await.take_if(|current| is_stale(current));
    }

    async fn client(&self) -> Result<Client, AccessError> {
        let mut current = self.current.lock().await;
        let fingerprint = self.credentials.fingerprint();
        if let Some(known) = current.as_ref().filter(|known| known.fingerprint == fingerprint) {
            return Ok(known.client.clone());
        }
        let config = self.credentials.load().await?;
        let is_from_plugin = config.auth_info.exec.is_some();
        let client = build(config, self.keepalive).await?;
        *current = Some(Current { fingerprint, client: client.clone(), is_from_plugin });
        Ok(client)
    }
}

/// Plugins are programs that are run and waited for, which must not keep the watches waiting.
async fn build(config: Config, keepalive: Duration) -> Result<Client, AccessError> {
    let server = config.cluster_url.to_string();
    let built = tokio::task::spawn_blocking(move || make(&config, keepalive)).await;
    let built = built.unwrap_or_else(|failure| Err(kube_client::Error::Service(Box::new(failure))));
    built.map_err(|error| AccessError::Client { server, source: Box::new(error) })
}

/// One connection for each watch. The kernel probes it while it is idle, so that a machine that vanished without a word
/// is noticed.
fn make(config: &Config, keepalive: Duration) -> Result<Client, kube_client::Error> {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_keepalive(Some(keepalive));
    connector.set_keepalive_interval(Some(keepalive / 3));
    connector.set_keepalive_retries(Some(3));
    connector.set_tcp_user_timeout(Some(keepalive * 2));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let mut client = HttpClient::builder(TokioExecutor::new());
    client.pool_timer(TokioTimer::new()).pool_idle_timeout(Duration::from_secs(20));
    let client: HttpClient<_, Body> = client.build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(Client::new(service, config.default_namespace.clone()))
}
