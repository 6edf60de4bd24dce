//! One command in one pod, whose input, output and exit status are those of this process.

use std::io::{self, Write};

use anyhow::{anyhow, bail};
use portolan_source::cluster::{ApiServer, Input, Outcome, PodObject, RemoteCommand, Sink};
use tokio::sync::mpsc::{Receiver, channel};

use super::access::explained;
use super::invocation::Invocation;
use super::terminal::{self, Restore};
use super::{manifests, place, question};
use crate::exit::SUCCESS;

/// Messages that wait to be sent.
const WAITING: usize = 16;

pub(super) async fn ask(server: &ApiServer, invocation: &Invocation, restore: Option<Restore>) -> anyhow::Result<u8> {
    let mut invocation = invocation.clone();
    // A file that cannot be read is reported before anything is asked.
    let files = manifests::read(&mut invocation)?;
    let node = question::placed(server, &mut invocation).await?;
    let pod = place::portolan(server, &invocation.node, node.as_deref()).await?;
    if node.is_none() {
        let node = pod.node.as_deref().unwrap_or_default();
        eprintln!("kubectl portolan: the question names no node: {node} answers (--node NAME chooses another one)");
    }
    let mut command = place::command(&pod, &invocation.node, invocation.remote())?;
    command.terminal = restore.is_some();
    // The input of a command that goes on until it is interrupted ends with this process, and the command with it.
    command.has_input = command.terminal || files.is_some() || invocation.is_live;
    let (_open, silent) = channel(WAITING);
    let session = match (restore, files) {
        (Some(restore), _) => return in_terminal(server, &command, &pod, &restore).await,
        (None, Some(text)) => manifests::input(text),
        (None, None) => silent,
    };
    run(server, &command, &pod, session).await
}

/// The user's terminal is that of the command until it ends.
async fn in_terminal(
    server: &ApiServer,
    command: &RemoteCommand,
    pod: &PodObject,
    restore: &Restore,
) -> anyhow::Result<u8> {
    let (sender, input) = channel(WAITING);
    let raw = restore.enter(sender.clone())?;
    terminal::read_keys(sender.clone())?;
    let size = tokio::spawn(terminal::report_size(sender));
    let status = run(server, command, pod, input).await;
    size.abort();
    drop(raw);
    if status.is_err() {
        // A command that covered the screen had no chance to leave it.
        terminal::reset();
    }
    Ok(restore.signal().unwrap_or(status?))
}

async fn run(
    server: &ApiServer,
    command: &RemoteCommand,
    pod: &PodObject,
    input: Receiver<Input>,
) -> anyhow::Result<u8> {
    let outcome = server.run(command, input, &mut Streams).await;
    let outcome = outcome.map_err(|error| explained(error, &place::right_to_run(command)))?;
    match outcome {
        Outcome::Exited(status) => Ok(status),
        Outcome::Unread => Ok(SUCCESS),
        Outcome::Failed(reason) => bail!(not_started(pod, command, &reason)),
    }
}

/// A container without the program is probably another one.
pub(super) fn not_started(pod: &PodObject, command: &RemoteCommand, reason: &str) -> anyhow::Error {
    let advice = match reason {
        reason if reason.contains("executable file not found") || reason.contains("no such file") => {
            " (is this a container of Portolan? --portolan-selector and --portolan-container choose another one)"
        }
        _ => "",
    };
    anyhow!(
        "the command did not run in the container {} of the pod {}/{}: {reason}{advice}",
        command.container,
        pod.namespace,
        pod.name
    )
}

/// Those of this process.
struct Streams;

impl Sink for Streams {
    fn stdout(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    }

    fn stderr(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::stderr().lock().write_all(bytes)
    }
}
