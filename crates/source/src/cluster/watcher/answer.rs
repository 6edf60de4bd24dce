//! The status and headers of a response.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::BodyExt;

use super::ended::Ended;
use super::follow::Watcher;
use crate::cluster::client::Body;
use crate::cluster::wire::Encoding;
use crate::spec::Status;

/// How much of an error is read.
const LONGEST_ERROR: usize = 64 << 10;

impl Watcher {
    /// The encoding and body of a successful response.
    pub(super) async fn accept(&self, response: Response<Body>) -> Result<(Encoding, Body), Ended> {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let encoding = Encoding::of(content_type);
        if response.status() != StatusCode::OK {
            return Err(self.refused(encoding, response).await);
        }
        let reason = || Ended::failed(format!("the response is {content_type:?}, neither protobuf nor JSON"));
        let encoding = encoding.ok_or_else(reason)?;
        Ok((encoding, response.into_body()))
    }

    /// An API server that starts forbids everything for a moment: a resource that was listed before is not absent then.
    fn may_be_absent(&self) -> bool {
        self.resource().is_optional() && !self.known
    }

    async fn refused(&self, encoding: Option<Encoding>, response: Response<Body>) -> Ended {
        let code = response.status();
        let pause = retry_after(&response);
        let limit = self.shared.tuning.answer;
        let body = tokio::time::timeout(limit, read_some(response.into_body())).await.unwrap_or_default();
        let status = encoding.unwrap_or(Encoding::Json).read_status(&body);
        let reason = explained(code, &status);
        match code {
            StatusCode::GONE => Ended::Gone,
            StatusCode::NOT_FOUND | StatusCode::FORBIDDEN if self.may_be_absent() => Ended::Absent(reason),
            code => Ended::Failed { reason, code: Some(code), pause },
        }
    }
}

/// The message of the server, and what to do about the most frequent ones.
fn explained(code: StatusCode, status: &Status) -> String {
    let advice = match code {
        StatusCode::UNAUTHORIZED => " (the credentials are invalid or expired; they are read again at every attempt)",
        StatusCode::FORBIDDEN => " (bind the ClusterRole system:node-proxier to this user)",
        _ => "",
    };
    format!("{code}: {}{advice}", status.message)
}

/// An error inside a watch.
pub(super) fn ended_by(status: &Status) -> Ended {
    let code = status.code.unwrap_or_default();
    match (code, status.reason.as_str()) {
        (410, _) | (_, "Expired" | "Gone") => Ended::Gone,
        _ => Ended::failed(format!("the watch ended with error {code}: {}", status.message)),
    }
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.parse().ok().map(|seconds: u64| Duration::from_secs(seconds.min(30)))
}

async fn read_some(mut body: Body) -> Bytes {
    let mut text = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if text.len() > LONGEST_ERROR {
            break;
        }
    }
    text.freeze()
}
