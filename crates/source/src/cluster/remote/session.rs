//! One command from its first byte to its exit status.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::channel::{Input, Output, Version};
use super::frame::{Opcode, encode};
use super::handshake::{check, random};
use super::message::{Event, Messages};
use super::{Outcome, RemoteCommand};
use crate::cluster::error::chain;

/// Between the exit status and the end of the connection.
const FAREWELL: Duration = Duration::from_secs(5);
/// Pings that wait for their answer; more are not answered.
const PINGS: usize = 4;
/// Bytes of input in one message.
const PIECE: usize = 32 << 10;

/// Where the output goes.
pub trait Sink: Send {
    fn stdout(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn stderr(&mut self, bytes: &[u8]) -> io::Result<()>;
}

pub(crate) async fn run(
    response: Response<Incoming>,
    key: &str,
    command: &RemoteCommand,
    input: Receiver<Input>,
    sink: &mut dyn Sink,
) -> Result<Outcome, String> {
    let version = check(response.headers(), key)?;
    if version == Version::V4 && command.has_input && !command.terminal {
        Input::End.message(version)?;
    }
    let connection = hyper::upgrade::on(response).await.map_err(|error| chain(&error))?;
    let (reader, writer) = tokio::io::split(TokioIo::new(connection));
    let (pings, to_answer) = channel(PINGS);
    tokio::select! {
        outcome = read_all(reader, sink, pings) => outcome,
        never = write_all(writer, version, input, to_answer) => match never {},
    }
}

/// Until the program has ended.
async fn read_all(
    mut reader: impl AsyncRead + Unpin,
    sink: &mut dyn Sink,
    pings: Sender<Bytes>,
) -> Result<Outcome, String> {
    let mut messages = Messages::default();
    let mut outcome = None;
    let mut buffer = vec![0; PIECE];
    loop {
        let read = reader.read(&mut buffer);
        // Some servers keep the connection open after the status.
        let length = match &outcome {
            None => read.await,
            Some(_) => tokio::time::timeout(FAREWELL, read).await.unwrap_or(Ok(0)),
        };
        let length = match (length, outcome.take()) {
            (Ok(0) | Err(_), Some(ended)) => return Ok(ended),
            (Ok(0), None) => return Err(early_end(&messages)),
            (Err(error), None) => return Err(format!("the connection to the API server broke: {}", chain(&error))),
            (Ok(length), ended) => {
                outcome = ended;
                length
            }
        };
        messages.push(&buffer[..length]);
        while let Some(event) = messages.next()? {
            match event {
                // A server that sends more pings than this side can answer gets fewer answers.
                Event::Ping(content) => _ = pings.try_send(content),
                Event::Closed(reason) => return outcome.ok_or_else(|| closed(reason)),
                Event::Message(message) => match Output::read(message)? {
                    Output::Ended(status) => outcome = Some(Outcome::read(&status)?),
                    output => {
                        if !pass_on(&output, sink)? {
                            return Ok(Outcome::Unread);
                        }
                    }
                },
            }
        }
    }
}

fn early_end(messages: &Messages) -> String {
    let torn = if messages.is_torn() { ", in the middle of a message" } else { "" };
    format!("the connection ended before the command did{torn}: the API server, the kubelet or a proxy has closed it")
}

fn closed(reason: Option<String>) -> String {
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("the server closed the connection before the command had ended{reason}")
}

/// Whether the output has a reader.
fn pass_on(output: &Output, sink: &mut dyn Sink) -> Result<bool, String> {
    let written = match output {
        Output::Stdout(bytes) => sink.stdout(bytes),
        Output::Stderr(bytes) => sink.stderr(bytes),
        Output::Ended(_) | Output::Nothing => Ok(()),
    };
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true).map_err(|error| format!("cannot write the output: {error}")),
    }
}

enum Never {}

/// Never ends: after a failure to write, the reader finds out why.
async fn write_all(
    mut writer: impl AsyncWrite + Unpin,
    version: Version,
    mut input: Receiver<Input>,
    mut pings: Receiver<Bytes>,
) -> Never {
    loop {
        let written = tokio::select! {
            Some(ping) = pings.recv() => send(&mut writer, Opcode::Pong, &ping).await,
            Some(input) = input.recv() => pass_in(&mut writer, version, &input).await,
            else => Err("nothing is left to send".to_owned()),
        };
        if let Err(reason) = written {
            tracing::debug!("sending to the command: {reason}");
            std::future::pending::<()>().await;
        }
    }
}

async fn pass_in(writer: &mut (impl AsyncWrite + Unpin), version: Version, input: &Input) -> Result<(), String> {
    let Input::Bytes(bytes) = input else { return send(writer, Opcode::Binary, &input.message(version)?).await };
    for start in (0..bytes.len()).step_by(PIECE) {
        let piece = bytes.slice(start..bytes.len().min(start + PIECE));
        send(writer, Opcode::Binary, &Input::Bytes(piece).message(version)?).await?;
    }
    Ok(())
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), opcode: Opcode, payload: &[u8]) -> Result<(), String> {
    let frame = encode(opcode, payload, random()?);
    writer.write_all(&frame).await.map_err(|error| error.to_string())?;
    writer.flush().await.map_err(|error| error.to_string())
}
