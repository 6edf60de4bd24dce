//! Headers and bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, REFERRER_POLICY,
    SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::Receiver;

use crate::question::Reply;

pub(super) type PageResponse = Response<PageBody>;

/// Nothing but the files of this page: no inline script, no other site, no frame around it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

/// A whole text, or what arrives on a channel until it is closed.
pub(super) enum PageBody {
    Whole(Option<Bytes>),
    Stream(Receiver<Bytes>),
}

impl Body for PageBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes: Option<Bytes>| bytes.map(|bytes| Ok(Frame::data(bytes)));
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(frame(bytes.take())),
            Self::Stream(receiver) => receiver.poll_recv(context).map(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

pub(super) fn response(status: StatusCode, media_type: &'static str, body: PageBody) -> PageResponse {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fixed = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (RESOURCE_POLICY, "same-origin"),
        (OPENER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

pub(super) fn whole(status: StatusCode, media_type: &'static str, body: impl Into<Bytes>) -> PageResponse {
    response(status, media_type, PageBody::Whole(Some(body.into())))
}

pub(super) fn replied(reply: Reply) -> PageResponse {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    whole(status, JSON, reply.body)
}

pub(super) fn error(status: StatusCode, message: &str) -> PageResponse {
    replied(Reply::error(status.as_u16(), message))
}

pub(super) fn not_allowed() -> PageResponse {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "the page is read-only: send GET or HEAD");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    response
}

/// To the same page, with a cookie from now on.
pub(super) fn redirect(location: &str, cookie: &str) -> PageResponse {
    let mut response = whole(StatusCode::SEE_OTHER, JSON, Bytes::new());
    for (name, value) in [(LOCATION, location), (SET_COOKIE, cookie)] {
        match HeaderValue::from_str(value) {
            Ok(value) => _ = response.headers_mut().insert(name, value),
            Err(_) => return error(StatusCode::BAD_REQUEST, "the path cannot be written in a header"),
        }
    }
    response
}
