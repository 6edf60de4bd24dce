//! The control socket: one JSON line with a question to the running daemon, one with the answer. Only root can open it.

use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use portolan_dataplane::Listeners;
use portolan_dataplane::traffic::ReadTraffic;
use portolan_explain::top::{TopAnswer, TopQuestion};
use portolan_explain::{
    ChangesAnswer, ConnectionAnswer, ConnectionsAnswer, DifferenceAnswer, LoadAnswer, PacketAnswer, PacketQuestion,
    PathAnswer, PathQuestion, ServicesAnswer, VerifyAnswer,
};
use portolan_kernel::files::identity;
use portolan_page::{Ask, Reply};
use portolan_plan::Plan;
use portolan_source::cluster::WatchState;
use portolan_status::Health;
use serde::{Deserialize, Serialize};

mod answering;
#[doc(hidden)]
pub mod fuzz;
mod lock;
mod peer;
mod replacement;

use crate::daemon::history::History;
use crate::settings::Settings;
use crate::system::{self, Listener, Stream};
use answering::answer;
use peer::Peer;

/// What the daemon publishes for the control socket and the metrics.
pub struct Published {
    /// `None` until the kernel has been programmed for the first time.
    pub plan: Option<Plan>,
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) settings: Settings,
    /// The listeners of this process, in a mode that has any.
    pub(crate) listeners: Option<Arc<Listeners>>,
    pub(crate) traffic_reader: Option<SharedReader>,
    pub(crate) node: LookUpNode,
    pub(crate) top: Option<AnswerTop>,
    /// Answers the questions of the page.
    pub(crate) page: Option<Ask>,
    pub(crate) watches: WatchStates,
    pub(crate) health: Option<Health>,
}

/// Reads counters and open connections.
pub(crate) type AnswerTop = Arc<dyn Fn(&TopQuestion) -> anyhow::Result<TopAnswer> + Send + Sync>;

/// The state of each watch on an API server.
pub(crate) type WatchStates = Arc<dyn Fn() -> Vec<WatchState> + Send + Sync>;

/// The addresses of a Node that the facts do not have.
pub(crate) type LookUpNode = Arc<dyn Fn(&str) -> Vec<IpAddr> + Send + Sync>;

/// Counters are read by one thread at a time.
pub(crate) type SharedReader = Arc<Mutex<Box<dyn ReadTraffic>>>;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// The question of a version without names.
    Packet(PacketQuestion),
    Path(PathQuestion),
    /// An existing connection.
    Connection(PathQuestion),
    Connections {
        service: Option<String>,
        most: usize,
    },
    Services,
    Load,
    Top(TopQuestion),
    Verify,
    /// A question of the page.
    Page(portolan_page::Question),
    /// The changes after one of that number; 0 for all that are kept.
    Changes {
        after: u64,
        most: usize,
    },
    Difference {
        manifests: Vec<PathBuf>,
    },
    Environment {
        namespace: String,
        links: bool,
    },
    /// Another process takes over. The question of a version that does not confirm that it serves.
    Replace,
    /// Another process takes over, and confirms when it serves.
    ReplaceAndConfirm,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Packet(Box<PacketAnswer>),
    Path(PathAnswer),
    Connection(Box<ConnectionAnswer>),
    Connections(ConnectionsAnswer),
    Services(ServicesAnswer),
    Load(LoadAnswer),
    Top(TopAnswer),
    Verify(VerifyAnswer),
    Difference(DifferenceAnswer),
    Changes(ChangesAnswer),
    Page(Reply),
    Environment(Vec<(String, String)>),
    /// Sockets follow: the answer of a version without a lock.
    Sockets,
    /// Sockets follow, and then the lock.
    SocketsAndLock,
    Failure(String),
}

/// How long a command waits for the daemon's answer, and each side of a replacement for the other.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// How long the daemon waits for a whole request, and for the peer to take the whole answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The paths of the manifests of `diff` are the longest part of a request.
const LONGEST_REQUEST: usize = 1 << 20;
/// Clients that are answered at the same time, each in its own thread.
const MAX_CLIENTS: usize = 16;
/// The pause after a failure to accept, which a shortage of descriptors would repeat at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Ends the run loop.
pub(crate) type OnReplaced = Box<dyn Fn(Replacement) + Send + Sync>;

pub(crate) fn is_answered(path: &Path) -> bool {
    system::connect(path).is_ok()
}

/// What all clients share.
struct Server {
    path: PathBuf,
    /// The inode of our socket, if there is one: another daemon may have put its own in the same place.
    inode: Mutex<Option<(u64, u64)>>,
    published: Arc<Mutex<Published>>,
    replaced: OnReplaced,
    /// `None` once another process has it.
    lock: Mutex<Option<Lock>>,
    /// Held by the one client that replaces this daemon.
    replacement: Mutex<()>,
}

/// Answers in the background. The daemon works without the socket, so a failure is only logged.
pub(crate) fn serve(path: &Path, published: Arc<Mutex<Published>>, lock: Option<Lock>, replaced: OnReplaced) {
    let (path, lock) = (path.to_owned(), Mutex::new(lock));
    let server = Server { path, inode: Mutex::default(), published, replaced, lock, replacement: Mutex::new(()) };
    let server = Arc::new(server);
    if let Err(error) = server.listen() {
        tracing::warn!(
            "the control socket {} is not available: {error:#}; rules are programmed all the same, but commands and \
             --replace do not reach this process (make the directory writable, or free space there, and restart)",
            server.path.display()
        );
        // The lock is held for as long as the process lives.
        std::mem::forget(server);
    }
}

impl Server {
    fn listen(self: &Arc<Self>) -> anyhow::Result<()> {
        let listener = Arc::new(listen(&self.path)?);
        *self.inode.lock().map_err(|_| anyhow!("the daemon has failed"))? = inode(&self.path);
        let server = self.clone();
        std::thread::spawn(move || answer_all(&listener, &server));
        Ok(())
    }

    /// After another daemon has put its socket in the place of ours, and has ended. The thread of our former socket waits
    /// for the rest of the process's life.
    fn listen_again(self: &Arc<Self>) {
        let is_ours = self.inode.lock().is_ok_and(|ours| ours.is_some() && *ours == inode(&self.path));
        if !is_ours && let Err(error) = self.listen() {
            tracing::warn!("the control socket {} is not available: {error:#}", self.path.display());
        }
    }
}

fn inode(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|metadata| identity(&metadata))
}

fn listen(path: &Path) -> anyhow::Result<Listener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    }
    system::listen(path)
}

fn answer_all(listener: &Arc<Listener>, server: &Arc<Server>) {
    let clients = Arc::new(());
    for stream in listener.incoming() {
        match stream {
            // Each thread holds a reference.
            Ok(stream) if Arc::strong_count(&clients) > MAX_CLIENTS => refuse(&stream),
            Ok(stream) => {
                let (server, client, listener) = (server.clone(), clients.clone(), listener.clone());
                std::thread::spawn(move || {
                    if let Err(error) = admit(&stream, &listener).and_then(|()| answer_stream(&stream, &server)) {
                        tracing::debug!("answering on the control socket: {error:#}");
                    }
                    drop(client);
                });
            }
            Err(error) => {
                tracing::warn!("accepting on the control socket: {error}");
                std::thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

/// Without waiting: the answer fits into the socket's buffer.
fn refuse(stream: &Stream) {
    let answer = Answer::Failure(format!("{MAX_CLIENTS} commands are being answered: try again"));
    let refused = stream.set_nonblocking(true).map_err(anyhow::Error::from).and_then(|()| send(stream, &answer));
    if let Err(error) = refused {
        tracing::debug!("refusing a client of the control socket: {error:#}");
    }
}

/// Where the socket's file does not keep others away, a client says first why it may ask.
fn admit(stream: &Stream, listener: &Listener) -> anyhow::Result<()> {
    if !system::HAS_SECRET {
        return Ok(());
    }
    let line = Peer::new(stream, REQUEST_TIMEOUT).read_line_alone(LONGEST_REQUEST).context("reading the secret")?;
    ensure!(system::admit(listener, &line), "a client without the secret");
    Ok(())
}

fn answer_stream(stream: &Stream, server: &Arc<Server>) -> anyhow::Result<()> {
    let line = Peer::new(stream, REQUEST_TIMEOUT).read_line(LONGEST_REQUEST).context("reading the request")?;
    let question: Question = serde_json::from_slice(&line).context("reading the request")?;
    let confirms = matches!(question, Question::ReplaceAndConfirm);
    if confirms || matches!(question, Question::Replace) {
        return match server.replacement.try_lock() {
            Ok(_only_one) => replacement::hand_over(stream, server, confirms),
            Err(_) => send(stream, &Answer::Failure("another process replaces it already".to_owned())),
        };
    }
    let answer = answer(&question, &server.published).unwrap_or_else(|error| Answer::Failure(format!("{error:#}")));
    send(stream, &answer)
}

fn send(stream: &Stream, answer: &Answer) -> anyhow::Result<()> {
    let text = serde_json::to_string(answer)? + "\n";
    Ok(Peer::new(stream, ANSWER_TIMEOUT).write_all(text.as_bytes())?)
}

pub(crate) use answering::Current;
pub(crate) use lock::{Claim, Lock};
pub(crate) use replacement::{Confirmation, Replacement, Successor, replace};

pub(crate) fn query(path: &Path, question: &Question) -> anyhow::Result<Answer> {
    let mut stream = system::connect(path).with_context(|| {
        format!(
            "connecting to the daemon at {} (start portolan proxy, or answer from files with --manifests PATH)",
            path.display()
        )
    })?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all((serde_json::to_string(question)? + "\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).context("waiting for the daemon's answer")?;
    match serde_json::from_str(&line).context("reading the daemon's answer")? {
        Answer::Failure(reason) => bail!("the daemon failed: {reason}"),
        answer => Ok(answer),
    }
}
