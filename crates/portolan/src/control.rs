//! Questions to a running daemon, over a socket that only root can open: one JSON line asks, one answers.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use portolan_explain::{DifferenceAnswer, PacketAnswer, PacketQuestion, ServicesAnswer, VerifyAnswer, services};
use portolan_plan::Plan;
use portolan_source::{Options, State};
use serde::{Deserialize, Serialize};

use crate::modes::spelling;
use crate::offline::load;
use crate::settings::Settings;

/// What the daemon shows to those who ask.
pub struct Published {
    /// `None` until the kernel has been programmed for the first time.
    pub plan: Option<Plan>,
    pub(crate) settings: Settings,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    Packet(PacketQuestion),
    Services,
    Verify,
    Difference { manifests: Vec<PathBuf> },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Packet(Box<PacketAnswer>),
    Services(ServicesAnswer),
    Verify(VerifyAnswer),
    Difference(DifferenceAnswer),
    Failure(String),
}

/// A daemon that is asked must answer within this time, and one who asks must do so at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers in the background. A second daemon on the same socket is refused: the two would undo each other's work.
/// Without the socket for another reason the daemon still does its work, so that this is only told.
pub(crate) fn serve(path: &Path, published: Arc<Mutex<Published>>) -> anyhow::Result<()> {
    if UnixStream::connect(path).is_ok() {
        bail!("another portolan proxy answers at {}: stop it, or use another --control-socket", path.display());
    }
    match listen(path) {
        Ok(listener) => _ = std::thread::spawn(move || answer_all(&listener, &published)),
        Err(error) => tracing::warn!("questions cannot be asked at {}: {error:#}", path.display()),
    }
    Ok(())
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

fn answer_all(listener: &UnixListener, published: &Mutex<Published>) {
    for stream in listener.incoming().flatten() {
        if let Err(error) = answer_stream(&stream, published) {
            tracing::debug!("answering a question: {error:#}");
        }
    }
}

fn answer_stream(mut stream: &UnixStream, published: &Mutex<Published>) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let question: Question = serde_json::from_str(&line).context("reading the question")?;
    let answer = answer(&question, published).unwrap_or_else(|error| Answer::Failure(format!("{error:#}")));
    let mut text = serde_json::to_string(&answer)?;
    text.push('\n');
    Ok(stream.write_all(text.as_bytes())?)
}

/// Takes what is needed out of the lock first, so that a long answer never holds up a sync.
fn answer(question: &Question, published: &Mutex<Published>) -> anyhow::Result<Answer> {
    let (plan, settings) = {
        let published = published.lock().map_err(|_| anyhow!("the daemon has failed"))?;
        let plan = published.plan.clone().context("nothing is programmed yet: see the daemon's log")?;
        (plan, published.settings.clone())
    };
    let mode = spelling(settings.mode_settings());
    Ok(match question {
        Question::Services => Answer::Services(services(&plan)),
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
