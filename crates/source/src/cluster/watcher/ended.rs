//! How an attempt to list or watch ended.

use std::time::Duration;

use http::StatusCode;

#[derive(Debug)]
pub(super) enum Ended {
    /// The server closed a watch, or a list is complete.
    Normally,
    /// The resource version has expired.
    Gone,
    /// The server does not send initial events, now or ever: a list is needed.
    NoInitialEvents { reason: String, permanently: bool },
    /// The resource does not exist, or is forbidden.
    Absent(String),
    /// With the status of the response, if there was one, and its Retry-After.
    Failed { reason: String, code: Option<StatusCode>, pause: Option<Duration> },
}

impl Ended {
    pub(super) fn failed(reason: impl Into<String>) -> Self {
        Self::Failed { reason: reason.into(), code: None, pause: None }
    }
}
