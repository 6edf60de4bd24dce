//! Questions to a running daemon, over a socket that only root can open: one JSON line asks, one answers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use portolan_dataplane::userspace::Doors;
use portolan_dns::environment::variables;
use portolan_explain::{DifferenceAnswer, PacketAnswer, PacketQuestion, ServicesAnswer, VerifyAnswer, services};
use portolan_plan::Plan;
use portolan_source::{Options, State};
use serde::{Deserialize, Serialize};

mod replacement;

use crate::modes::spelling;
use crate::offline::load;
use crate::settings::Settings;

/// What the daemon shows to those who ask.
pub struct Published {
    /// `None` until the kernel has been programmed for the first time.
    pub plan: Option<Plan>,
    pub(crate) settings: Settings,
    /// In userspace mode: the listeners of this process.
    pub(crate) doors: Option<Arc<Doors>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    Packet(PacketQuestion),
    Services,
    Verify,
    Difference {
        manifests: Vec<PathBuf>,
    },
    Environment {
        namespace: String,
        links: bool,
    },
    /// Another process asks for our place.
    Replace,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Packet(Box<PacketAnswer>),
    Services(ServicesAnswer),
    Verify(VerifyAnswer),
    Difference(DifferenceAnswer),
    Environment(Vec<(String, String)>),
    /// What follows is sockets.
    Sockets,
    Failure(String),
}

/// A daemon that is asked must answer within this time, and one who asks must do so at once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Tells the run loop to end.
pub(crate) type TellReplaced = Box<dyn Fn(Replacement) + Send>;

pub(crate) fn is_answered(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// Answers in the background. Without the socket the daemon still does its work, so that this is only told.
pub(crate) fn serve(path: &Path, published: Arc<Mutex<Published>>, replaced: TellReplaced) {
    match listen(path) {
        Ok(listener) => _ = std::thread::spawn(move || answer_all(&listener, &published, &replaced)),
        Err(error) => tracing::warn!("questions cannot be asked at {}: {error:#}", path.display()),
    }
}

fn listen(path: &Path) -> anyhow::Result<UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    }
    _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).context("listening")?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).context("keeping others out")?;
    Ok(listener)
}

fn answer_all(listener: &UnixListener, published: &Mutex<Published>, replaced: &TellReplaced) {
    for stream in listener.incoming().flatten() {
        if let Err(error) = answer_stream(&stream, published, replaced) {
            tracing::debug!("answering a question: {error:#}");
        }
    }
}

fn answer_stream(mut stream: &UnixStream, published: &Mutex<Published>, replaced: &TellReplaced) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let question: Question = serde_json::from_str(&line).context("reading the question")?;
    if matches!(question, Question::Replace) {
        let doors = published.lock().map_err(|_| anyhow!("the daemon has failed"))?.doors.clone();
        return replacement::hand_over(stream, doors.as_deref(), replaced);
    }
    let answer = answer(&question, published).unwrap_or_else(|error| Answer::Failure(format!("{error:#}")));
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    Ok(stream.write_all(text.as_bytes())?)
}

/// Takes what is needed out of the lock first, so that a long answer never holds up a sync.
fn answer(question: &Question, published: &Mutex<Published>) -> anyhow::Result<Answer> {
    let (plan, settings, doors) = {
        let published = published.lock().map_err(|_| anyhow!("the daemon has failed"))?;
        let plan = published.plan.clone().context("nothing is programmed yet: see the daemon's log")?;
        (plan, published.settings.clone(), published.doors.clone())
    };
    let mode = spelling(settings.mode_settings(), doors);
    Ok(match question {
        Question::Replace => bail!("this question is answered with sockets"),
        Question::Services => Answer::Services(services(&plan)),
        Question::Environment { namespace, links } => Answer::Environment(variables(plan.facts(), namespace, *links)),
        Question::Verify => Answer::Verify(mode.verify(&plan)?),
        Question::Packet(packet) => {
            let packet = packet.packet().map_err(|mistake| anyhow!(mistake))?;
            Answer::Packet(Box::new(mode.explain_kernel(&plan, &packet)?))
        }
        Question::Difference { manifests } => {
            let options = settings.manifest_options();
            let state = match options.state {
                State::ReadWrite(directory) => State::ReadOnly(directory),
                other => other,
            };
            let other = load(Options { paths: manifests.clone(), state, ..options }, &settings.plan)?;
            Answer::Difference(mode.difference(&plan, &other))
        }
    })
}

pub(crate) use replacement::{Replacement, replace};

pub(crate) fn ask(path: &Path, question: &Question) -> anyhow::Result<Answer> {
    let mut stream = UnixStream::connect(path).with_context(|| {
        format!(
            "asking the running daemon at {} (start portolan proxy, or answer from files with --manifests PATH)",
            path.display()
        )
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all((serde_json::to_string(question)? + "\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).context("waiting for the daemon's answer")?;
    match serde_json::from_str(&line).context("reading the daemon's answer")? {
        Answer::Failure(reason) => bail!("the daemon says: {reason}"),
        answer => Ok(answer),
    }
}
