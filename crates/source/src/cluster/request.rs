//! The requests that list and watch a resource.

use std::time::Duration;

use http::header::ACCEPT;
use http_body_util::Full;

use super::client::Request;
use super::options::ContentType;
use super::resource::{Resource, escaped};

#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub(super) resource: Resource,
    /// Path and selectors.
    pub(super) url: String,
    pub(super) content_type: ContentType,
}

impl Requests {
    /// All objects as events, then a bookmark, then changes.
    pub(super) fn initial_events(&self, timeout: Duration) -> Result<Request, String> {
        let from = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        self.request(&format!("{}{from}", watching(timeout)), ";stream=watch")
    }

    /// Changes after a resource version.
    pub(super) fn changes(&self, version: &str, timeout: Duration) -> Result<Request, String> {
        let from = format!("&resourceVersion={}", escaped(version));
        self.request(&format!("{}{from}", watching(timeout)), ";stream=watch")
    }

    /// A page of a list. The server's cache is current enough at the start, but not after `410 Gone`.
    pub(super) fn page(&self, size: u32, next: &str, newest: bool) -> Result<Request, String> {
        let from = match next {
            "" if newest => String::new(),
            "" => "&resourceVersion=0".to_owned(),
            next => format!("&continue={}", escaped(next)),
        };
        self.request(&format!("&limit={size}{from}"), "")
    }

    fn request(&self, query: &str, stream: &str) -> Result<Request, String> {
        let json = format!("application/json{stream}, application/json");
        let accepted = match self.content_type {
            ContentType::Protobuf => format!("application/vnd.kubernetes.protobuf{stream}, {json}"),
            ContentType::Json => json,
        };
        let request = http::Request::get(format!("{}{query}", self.url)).header(ACCEPT, accepted);
        request.body(Full::default()).map_err(|error| format!("cannot build the request: {error}"))
    }
}

fn watching(timeout: Duration) -> String {
    format!("&watch=true&allowWatchBookmarks=true&timeoutSeconds={}", timeout.as_secs().max(1))
}
