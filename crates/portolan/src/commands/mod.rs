//! Commands that query and print.

mod attached;
mod changes;
mod cleanup;
mod connections;
mod environment;
mod explain;
mod manual;
mod page;
mod shadow;
mod standard_input;
mod top;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, bail};
use portolan_dataplane::mode::ModeView;
use portolan_explain::{Style, difference, verify_answer};
use portolan_plan::Plan;
use portolan_source::Options;
use serde::Serialize;

use crate::control::{Answer, Question, query};
use crate::exit::{DIFFERENT, SUCCESS};
use crate::flags::{
    DiffFlags, Output, OutputFlags, QuestionFlags, RenderFlags, ServicesFlags, SettingFlags, VerifyFlags,
};
use crate::offline::load;
use crate::settings::{QuestionSettings, require_manifests};

pub(crate) use attached::end_with_connection;
pub use changes::changes;
pub use cleanup::{cleanup, cleanup_all};
pub use connections::connections;
pub use environment::{environment, run};
pub use explain::explain;
pub use manual::{completions, man};
pub use page::page;
pub use shadow::shadow;
pub(crate) use shadow::show_comparison;
use standard_input::StandardInput;
pub use top::top;

/// Where offline answers come from.
const OFFLINE: &str = "the objects that would be programmed";

/// Manifests planned as the daemon would plan them, and the mode that would program them.
struct Offline {
    settings: QuestionSettings,
    plan: Plan,
}

impl Offline {
    fn load(flags: &SettingFlags) -> anyhow::Result<Self> {
        let settings = QuestionSettings::read(flags)?;
        let plan = plan_of(&settings, &flags.manifests.manifests)?;
        Ok(Self { settings, plan })
    }

    /// `None` without manifests: the running daemon answers.
    fn load_if_given(flags: &QuestionFlags) -> anyhow::Result<Option<Self>> {
        let is_given = !flags.settings.manifests.manifests.is_empty();
        is_given.then(|| Self::load(&flags.settings)).transpose()
    }

    fn view(&self) -> Box<dyn ModeView> {
        let traffic = &self.settings.traffic;
        traffic.mode.view(&traffic.mode_settings, None)
    }
}

fn plan_of(settings: &QuestionSettings, paths: &[PathBuf]) -> anyhow::Result<Plan> {
    let options = Options { paths: paths.to_vec(), ..settings.manifests.clone() };
    load(options, &settings.traffic.plan, settings.bind_address)
}

/// Colour is for terminals only.
pub(crate) fn style() -> Style {
    Style { colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
}

fn show<T: Serialize>(flags: &OutputFlags, answer: &T, text: impl FnOnce(&T, Style) -> String) -> anyhow::Result<()> {
    match flags.output {
        Output::Text => write_out(&text(answer, style()))?,
        Output::Json => write_out(&(serde_json::to_string_pretty(answer)? + "\n"))?,
    };
    Ok(())
}

/// A closed pipe, as `head` leaves it, is no error. Returns whether there is a reader.
pub(crate) fn write_out(text: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        other => other.context("writing the answer").map(|()| true),
    }
}

pub fn render(flags: &RenderFlags) -> anyhow::Result<u8> {
    let offline = Offline::load(&flags.settings)?;
    let rendered = offline.view().render(&offline.plan);
    let objects: Vec<RenderedObject> =
        rendered.objects.iter().map(|(key, value)| RenderedObject::new(key, value)).collect();
    show(&flags.output, &objects, |_, _| rendered.listing)?;
    Ok(SUCCESS)
}

#[derive(Serialize)]
struct RenderedObject {
    object: String,
    content: Vec<String>,
}

impl RenderedObject {
    fn new(key: &str, value: &str) -> Self {
        let lines = value.lines().map(|line| line.trim().trim_start_matches(": ").to_string());
        Self { object: key.to_string(), content: lines.filter(|line| !line.is_empty()).collect() }
    }
}

pub fn services(flags: &ServicesFlags) -> anyhow::Result<u8> {
    if flags.load {
        return open_connections(flags);
    }
    let answer = match Offline::load_if_given(&flags.question)? {
        Some(offline) => portolan_explain::services(&offline.plan),
        None => match query(&flags.question.control.control_socket, &Question::Services)? {
            Answer::Services(answer) => answer,
            other => return unexpected(&other),
        },
    };
    show(&flags.question.output, &answer, |answer, style| answer.text(style))?;
    Ok(SUCCESS)
}

/// The connections are those of the node, so that only its daemon knows them.
fn open_connections(flags: &ServicesFlags) -> anyhow::Result<u8> {
    if !flags.question.settings.manifests.manifests.is_empty() {
        bail!("--load needs the running daemon: leave out --manifests");
    }
    let answer = match query(&flags.question.control.control_socket, &Question::Load)? {
        Answer::Load(answer) => answer,
        other => return unexpected(&other),
    };
    show(&flags.question.output, &answer, |answer, style| answer.text(style))?;
    Ok(SUCCESS)
}

pub fn verify(flags: &VerifyFlags) -> anyhow::Result<u8> {
    let answer = match Offline::load_if_given(&flags.question)? {
        Some(offline) => {
            let mode = offline.settings.traffic.mode.name();
            verify_answer(mode, &offline.view().verify(&offline.plan)?)
        }
        None => match query(&flags.question.control.control_socket, &Question::Verify)? {
            Answer::Verify(answer) => answer,
            other => return unexpected(&other),
        },
    };
    show(&flags.question.output, &answer, |answer, style| answer.text(style))?;
    Ok(if answer.agrees() { SUCCESS } else { DIFFERENT })
}

pub fn diff(flags: &DiffFlags) -> anyhow::Result<u8> {
    let QuestionFlags { settings, control, output } = &flags.question;
    let paths = &settings.manifests.manifests;
    require_manifests(paths)?;
    let answer = if flags.from.is_empty() {
        let input = StandardInput::copied(paths, &control.control_socket)?;
        let manifests = input.manifests(paths)?;
        match query(&control.control_socket, &Question::Difference { manifests })? {
            Answer::Difference(answer) => answer,
            other => return unexpected(&other),
        }
    } else {
        let after = Offline::load(settings)?;
        let before = plan_of(&after.settings, &flags.from)?;
        difference(&before, &after.plan, &after.view().difference(&before, &after.plan))
    };
    show(output, &answer, |answer, style| answer.text(style))?;
    Ok(if answer.is_empty() { SUCCESS } else { DIFFERENT })
}

fn unexpected(answer: &Answer) -> anyhow::Result<u8> {
    bail!("{}", another_version(answer))
}

fn another_version(answer: &Answer) -> String {
    format!("unexpected answer from the daemon ({answer:?}): is it of another version?")
}
