//! The pages of the metrics server.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use crate::clock::{Clock, Moment};
use crate::healthz::JSON;
use crate::metrics::{Build, CONTENT_TYPE, Metrics, Scrape};
use crate::server::{Answer, Handler, answer, not_found, text};

const WARNING: &str = "This page is intended for debugging. Its format may change at any time.";
const LISTED: &str = "/configz /flagz /healthz /metrics /proxyMode";
/// The largest accepted body: a number is short.
const MAX_BODY: usize = 1024;

/// Sets the log verbosity, and returns a confirmation or an error for the client.
pub type SetVerbosity = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// The configuration on the pages. Replaced as a whole when the configuration changes.
#[derive(Clone)]
pub struct Pages {
    /// The effective configuration in kube-proxy's format: one object under the name of its API group.
    pub configz: serde_json::Value,
    /// Every flag with its value.
    pub flagz: Vec<(String, String)>,
    /// Whether `/debug/` is served (`enableProfiling`).
    pub profiling: bool,
    pub set_verbosity: SetVerbosity,
}

impl Default for Pages {
    fn default() -> Self {
        let refuse = |_: &str| Err("the verbosity cannot be changed at runtime".to_owned());
        Self { configz: serde_json::json!({}), flagz: Vec::new(), profiling: false, set_verbosity: Arc::new(refuse) }
    }
}

/// Everything that the pages are rendered from.
pub(crate) struct Site {
    pub(crate) pages: Mutex<Arc<Pages>>,
    pub(crate) build: Mutex<Build>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) scrape: Arc<Scrape>,
    /// One page is rendered at a time, because that takes a thread.
    pub(crate) scraping: Arc<Semaphore>,
    pub(crate) clock: Clock,
    pub(crate) start: Moment,
}

/// A large page. Once it is sent, its memory and what it was rendered from go back to the system.
struct Rendered(String);

impl AsRef<[u8]> for Rendered {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Drop for Rendered {
    fn drop(&mut self) {
        self.0 = String::new();
        portolan_kernel::release_unused_memory();
    }
}

pub(crate) fn handler(site: Arc<Site>) -> Handler {
    Arc::new(move |request| {
        let site = site.clone();
        Box::pin(async move { site.answer(request).await })
    })
}

impl Site {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let ok = StatusCode::OK;
        match request.uri().path() {
            "/metrics" => self.scraped().await,
            "/metrics/slis" => answer(ok, CONTENT_TYPE, self.metrics.slis_page()),
            "/healthz" => self.ping(),
            "/proxyMode" => text(ok, self.build().mode),
            "/configz" => answer(ok, JSON, self.pages().configz.to_string()),
            "/statusz" => text(ok, self.statusz()),
            "/flagz" => text(ok, self.flagz()),
            path if path.starts_with("/debug/") && self.pages().profiling => self.debug(request).await,
            _ => not_found(),
        }
    }

    async fn scraped(&self) -> Answer {
        let turn = self.scraping.clone().acquire_owned().await.expect("the semaphore is never closed");
        let scrape = self.scrape.clone();
        let page = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            scrape.page()
        });
        match page.await {
            Ok(page) => answer(StatusCode::OK, CONTENT_TYPE, Bytes::from_owner(Rendered(page))),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("rendering the page failed: {error}\n")),
        }
    }

    fn ping(&self) -> Answer {
        self.metrics.pinged();
        text(StatusCode::OK, "ok")
    }

    async fn debug(&self, request: Request<Incoming>) -> Answer {
        match request.uri().path() {
            "/debug/flags/v" => self.change_verbosity(request).await,
            path if path.starts_with("/debug/pprof") => text(StatusCode::NOT_IMPLEMENTED, no_profiler()),
            _ => not_found(),
        }
    }

    async fn change_verbosity(&self, request: Request<Incoming>) -> Answer {
        if request.method() != Method::PUT {
            return text(StatusCode::NOT_ACCEPTABLE, "send the new verbosity as the body of a PUT\n");
        }
        let body = match Limited::new(request.into_body(), MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return text(StatusCode::BAD_REQUEST, format!("reading the request body: {error}\n")),
        };
        match (self.pages().set_verbosity)(String::from_utf8_lossy(&body).trim()) {
            Ok(answer) => text(StatusCode::OK, answer),
            Err(why) => text(StatusCode::BAD_REQUEST, why),
        }
    }

    fn statusz(&self) -> String {
        let (build, now) = (self.build(), self.clock.now());
        let up = now.since_start.saturating_sub(self.start.since_start).as_secs();
        let (hours, minutes, seconds) = (up / 3600, up / 60 % 60, up % 60);
        format!(
            "\nkube-proxy statusz\nWarning: {WARNING}\n\nStarted: {:.0}\nUp: {hours} hr {minutes:02} min {seconds:02} sec\n\
             Binary version: {}\nImplementation: portolan {}\nPaths: {LISTED}\n",
            self.start.wall, build.kubernetes_version, build.version
        )
    }

    fn flagz(&self) -> String {
        let mut flags = self.pages().flagz.clone();
        flags.sort();
        let lines: String = flags.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
        format!("\nkube-proxy flagz\nWarning: {WARNING}\n\n{lines}")
    }

    fn pages(&self) -> Arc<Pages> {
        self.pages.lock().expect("the lock is not poisoned").clone()
    }

    fn build(&self) -> Build {
        self.build.lock().expect("the lock is not poisoned").clone()
    }
}

fn no_profiler() -> String {
    let process = std::process::id();
    format!(
        "There is no Go runtime here to profile. On the node, use `perf record -g -p {process}` for processor time; \
         /metrics has memory (process_resident_memory_bytes) and the time that syncs take.\n"
    )
}
