//! Programs that run in a container, through the API server: WebSocket (RFC 6455), and in it the channels of Kubernetes.
//!
//! | file | idea |
//! |---|---|
//! | `frame` | frames as bytes, and bytes as frames |
//! | `message` | frames joined to messages; pings, and the end |
//! | `channel` | messages of Kubernetes: which stream a message belongs to |
//! | `outcome` | the exit status, from the message on the error channel |
//! | `handshake` | the request, and whether the answer is that of a WebSocket server |
//! | `session` | a connection from its first frame to its last |
//!
//! The server is not trusted: frames and messages are bounded, and nothing is allocated for a length that is only announced.

mod channel;
mod frame;
mod handshake;
mod message;
mod outcome;
mod session;

pub use channel::Input;
pub(super) use handshake::request;
pub use outcome::Outcome;
pub use session::Sink;
pub(super) use session::run;

/// A program in a container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteCommand {
    pub namespace: String,
    pub pod: String,
    pub container: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// It has a terminal, whose output is the only one.
    pub terminal: bool,
    /// Something is written to its standard input.
    pub has_input: bool,
}

/// What the fuzz target of this folder does with any bytes.
pub(super) fn decode(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let (first, second) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let mut messages = message::Messages::default();
    for piece in [first, second] {
        messages.push(piece);
        while let Ok(Some(event)) = messages.next() {
            if let message::Event::Message(message) = event {
                _ = channel::Output::read(message).map(outcome_of);
            }
        }
    }
}

fn outcome_of(output: channel::Output) {
    if let channel::Output::Ended(status) = output {
        _ = Outcome::read(&status);
    }
}
