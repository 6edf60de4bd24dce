//! What is asked of the API server, word for word.

use std::time::Duration;

use http::header::ACCEPT;
use http_body_util::Full;

use super::ContentType;
use super::client::Request;
use super::resource::Resource;

/// Asks for one resource, again and again.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) resource: Resource,
    /// Path and selection.
    pub(super) url: String,
    pub(super) content_type: ContentType,
}

impl Asking {
    /// All objects as events, then a mark, then changes.
    pub(super) fn initial_events(&self, timeout: Duration) -> Result<Request, String> {
        let from = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        self.request(&format!("{}{from}", watching(timeout)), ";stream=watch")
    }

    /// Changes after a version.
    pub(super) fn changes(&self, version: &str, timeout: Duration) -> Result<Request, String> {
        let from = format!("&resourceVersion={}", super::resource::escaped(version));
        self.request(&format!("{}{from}", watching(timeout)), ";stream=watch")
    }

    /// A page of a list. What the server has at hand is good enough for a start; after it has said that we fell too far
    /// behind, only the newest is.
    pub(super) fn page(&self, size: u32, next: &str, newest: bool) -> Result<Request, String> {
        let from = match next {
            "" if newest => String::new(),
            "" => "&resourceVersion=0".to_owned(),
            next => format!("&continue={}", super::resource::escaped(next)),
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
        request.body(Full::default()).map_err(|error| format!("the question cannot be put: {error}"))
    }
}

fn watching(timeout: Duration) -> String {
    format!("&watch=true&allowWatchBookmarks=true&timeoutSeconds={}", timeout.as_secs().max(1))
}
