//! The channels of `v4.channel.k8s.io` and `v5.channel.k8s.io`: the first byte of a message is the stream it belongs to.

use bytes::{Buf, Bytes};
use serde_json::json;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Of version 5: the channel in the next byte ends.
const CLOSE: u8 = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V4,
    V5,
}

impl Version {
    /// What is offered, best first.
    pub(super) const OFFERED: &str = "v5.channel.k8s.io, v4.channel.k8s.io";

    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "v5.channel.k8s.io" => Some(Self::V5),
            "v4.channel.k8s.io" => Some(Self::V4),
            _ => None,
        }
    }
}

/// What goes to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Bytes(Bytes),
    /// Its standard input ends.
    End,
    /// The size of its terminal.
    Resize {
        columns: u16,
        rows: u16,
    },
}

impl Input {
    /// The message of this version of the protocol.
    pub(super) fn message(&self, version: Version) -> Result<Vec<u8>, String> {
        let message = |channel: u8, content: &[u8]| [&[channel], content].concat();
        match (self, version) {
            (Self::Bytes(bytes), _) => Ok(message(STDIN, bytes)),
            (Self::End, Version::V5) => Ok(vec![CLOSE, STDIN]),
            (Self::End, Version::V4) => Err("the API server is too old to end the standard input of a command: it \
                                             speaks v4.channel.k8s.io alone, and v5 came with Kubernetes 1.30"
                .to_owned()),
            (Self::Resize { columns, rows }, _) => {
                Ok(message(RESIZE, json!({"Width": columns, "Height": rows}).to_string().as_bytes()))
            }
        }
    }
}

/// What comes from the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
    /// The `Status` that says how it ended.
    Ended(Bytes),
    /// A stream has ended, which its messages say as well.
    Nothing,
}

impl Output {
    pub(super) fn read(mut message: Bytes) -> Result<Self, String> {
        if message.is_empty() {
            return Ok(Self::Nothing);
        }
        match message.get_u8() {
            // Each channel begins with an empty message.
            _ if message.is_empty() => Ok(Self::Nothing),
            STDOUT => Ok(Self::Stdout(message)),
            STDERR => Ok(Self::Stderr(message)),
            ERROR => Ok(Self::Ended(message)),
            CLOSE => Ok(Self::Nothing),
            other => Err(format!("a message on channel {other}, on which a server has nothing to say")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_channel_in_front() {
        let bytes = Input::Bytes(Bytes::from("ls"));
        assert_eq!(bytes.message(Version::V4), Ok(b"\x00ls".to_vec()));
        assert_eq!(Input::End.message(Version::V5), Ok(vec![255, 0]));
        assert!(Input::End.message(Version::V4).expect_err("v4 cannot").contains("too old"));
        let resize = Input::Resize { columns: 80, rows: 24 }.message(Version::V5);
        assert_eq!(resize, Ok(b"\x04{\"Height\":24,\"Width\":80}".to_vec()));
    }

    #[test]
    fn output_is_kept_apart() {
        let read = |message: &'static [u8]| Output::read(Bytes::from_static(message));
        assert_eq!(read(b"\x01out"), Ok(Output::Stdout(Bytes::from("out"))));
        assert_eq!(read(b"\x02err"), Ok(Output::Stderr(Bytes::from("err"))));
        assert_eq!(read(b"\x03{}"), Ok(Output::Ended(Bytes::from("{}"))));
        for quiet in [&b""[..], b"\x01", b"\xff\x01"] {
            assert_eq!(read(quiet), Ok(Output::Nothing));
        }
        assert!(read(b"\x07x").is_err());
    }
}
