//! One command on every node, ten nodes at a time.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use portolan_source::cluster::{ApiServer, Outcome, PodObject, RemoteCommand, Sink};
use serde_json::Value;
use tokio::sync::mpsc::channel;
use tokio::task::JoinSet;

use super::access::explained;
use super::invocation::Invocation;
use super::tables::{NodeAnswer, show};
use super::{ask, manifests, place};

const AT_ONCE: usize = 10;
/// For one node.
const LONGEST: Duration = Duration::from_secs(120);
/// Of one answer, and of the errors beside it.
const LARGEST: usize = 64 << 20;
const LARGEST_ERRORS: usize = 64 << 10;

pub(super) async fn ask(server: ApiServer, invocation: &Invocation) -> anyhow::Result<u8> {
    let mut invocation = invocation.clone();
    let files = manifests::read(&mut invocation)?;
    invocation.flags.retain(|flag| !flag.starts_with("--output="));
    invocation.flags.push("--output=json".to_owned());
    let pods = place::all(&server, &invocation.node, None).await?;
    let mut answers = without_pod(&server, &pods).await;
    let mut pods: Vec<PodObject> = pods.into_iter().filter(|pod| pod.node.is_some()).collect();
    if pods.is_empty() {
        // The same words as for one node.
        return Err(place::portolan(&server, &invocation.node, None).await.err().unwrap_or_else(|| anyhow!("no pods")));
    }
    // A DaemonSet that is updated has two pods on a node for a moment.
    pods.sort_by(|left, right| (&left.node, !left.is_ready).cmp(&(&right.node, !right.is_ready)));
    pods.dedup_by(|left, right| left.node == right.node);
    answers.extend(ask_all(Arc::new(server), &Arc::new(invocation.clone()), pods, files).await);
    answers.sort_by(|left, right| left.node.cmp(&right.node));
    show(&invocation.name, invocation.output, &answers)
}

/// Nodes of Linux on which Portolan does not run. Without the right to see nodes, only its own pods count.
async fn without_pod(server: &ApiServer, pods: &[PodObject]) -> Vec<NodeAnswer> {
    let with: BTreeSet<&str> = pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
    let nodes = server.nodes().await.unwrap_or_else(|error| {
        eprintln!("kubectl portolan: only nodes with a pod of Portolan are asked: {}", explained(error, "list nodes"));
        Vec::new()
    });
    let without = nodes.into_iter().filter(|node| node.is_linux && !with.contains(node.name.as_str()));
    without.map(|node| NodeAnswer::failed(node.name, None, "no pod of Portolan".to_owned())).collect()
}

async fn ask_all(
    server: Arc<ApiServer>,
    invocation: &Arc<Invocation>,
    pods: Vec<PodObject>,
    files: Option<Bytes>,
) -> Vec<NodeAnswer> {
    let progress = Progress { all: pods.len(), what: invocation.name.clone() };
    let (mut waiting, mut asked, mut answers) = (pods.into_iter(), JoinSet::new(), Vec::new());
    loop {
        while asked.len() < AT_ONCE
            && let Some(pod) = waiting.next()
        {
            asked.spawn(ask_one(server.clone(), invocation.clone(), pod, files.clone()));
        }
        progress.show(answers.len());
        match asked.join_next().await {
            None => break,
            Some(Ok(answer)) => answers.push(answer),
            Some(Err(failure)) => answers.push(NodeAnswer::failed(String::new(), None, failure.to_string())),
        }
    }
    progress.clear();
    answers
}

async fn ask_one(
    server: Arc<ApiServer>,
    invocation: Arc<Invocation>,
    pod: PodObject,
    files: Option<Bytes>,
) -> NodeAnswer {
    let (node, name) = (pod.node.clone().unwrap_or_default(), pod.name.clone());
    let answered = tokio::time::timeout(LONGEST, answer(&server, &invocation, &pod, files)).await;
    match answered.unwrap_or_else(|_| Err(anyhow!("no answer within {} s", LONGEST.as_secs()))) {
        Ok((status, answer)) => {
            NodeAnswer { node, pod: Some(name), status: Some(status), answer: Some(answer), error: None }
        }
        Err(error) => NodeAnswer::failed(node, Some(name), format!("{error:#}")),
    }
}

async fn answer(
    server: &ApiServer,
    invocation: &Invocation,
    pod: &PodObject,
    files: Option<Bytes>,
) -> anyhow::Result<(u8, Value)> {
    let mut command = place::command(pod, &invocation.node, invocation.remote())?;
    command.has_input = files.is_some();
    let input = files.map_or_else(|| channel(1).1, manifests::input);
    let mut kept = Kept::default();
    let outcome = server.run(&command, input, &mut kept).await;
    match outcome.map_err(|error| explained(error, &place::right_to_run(&command)))? {
        Outcome::Exited(status @ (0 | 1)) => Ok((status, read(&kept, &command)?)),
        Outcome::Exited(status) => Err(anyhow!("exit status {status}: {}", kept.errors())),
        Outcome::Failed(reason) => Err(ask::not_started(pod, &command, &reason)),
        Outcome::Unread => Err(anyhow!("the answer has more than {LARGEST} bytes")),
    }
}

fn read(kept: &Kept, command: &RemoteCommand) -> anyhow::Result<Value> {
    let malformed = |error| anyhow!("the answer of {} is malformed ({error}): is it of another version?", command.pod);
    serde_json::from_slice(&kept.output).map_err(malformed)
}

/// The output of one command, as far as it is wanted.
#[derive(Default)]
struct Kept {
    output: Vec<u8>,
    errors: Vec<u8>,
}

impl Kept {
    /// The last line that says something.
    fn errors(&self) -> String {
        let text = String::from_utf8_lossy(&self.errors);
        let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason was given");
        portolan_explain::printable(last).into_owned()
    }
}

impl Sink for Kept {
    /// More than the limit ends the command like a reader that has gone.
    fn stdout(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.output.len() + bytes.len() > LARGEST {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    fn stderr(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = LARGEST_ERRORS.saturating_sub(self.errors.len());
        self.errors.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(())
    }
}

/// How far the work is, for a user who waits at a terminal.
struct Progress {
    all: usize,
    what: String,
}

impl Progress {
    fn show(&self, done: usize) {
        if io::stderr().is_terminal() {
            _ = write!(io::stderr(), "\r\x1b[K{}: {done} of {} nodes", self.what, self.all);
        }
    }

    fn clear(&self) {
        if io::stderr().is_terminal() {
            _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
