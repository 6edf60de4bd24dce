//! Why a request had no success, and which right is missing.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::cluster::client::Body;
use crate::spec::Status;

/// How much of an error is read, and how much of it is shown.
const LONGEST_ERROR: usize = 64 << 10;
const LONGEST_MESSAGE: usize = 2000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("{what}: {reason}")]
    Failed { what: String, reason: String },
    /// The server's own message, without control characters.
    #[error("{what}: the API server answers {code}: {message}")]
    Refused { what: String, code: u16, message: String },
}

impl RequestError {
    pub(super) fn refused(what: &str, code: u16, status: &Status) -> Self {
        let clean = |character: char| if character.is_control() { ' ' } else { character };
        let message = status.message.trim().chars().take(LONGEST_MESSAGE).map(clean).collect();
        Self::Refused { what: what.to_owned(), code, message }
    }

    /// The user has not the right to do this.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }

    pub fn is_unauthorized(&self) -> bool {
        matches!(self, Self::Refused { code: 401, .. })
    }

    pub(super) fn is_absent(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

pub(super) async fn beginning(mut body: Body) -> Bytes {
    let mut text = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if text.len() > LONGEST_ERROR {
            break;
        }
    }
    text.freeze()
}
