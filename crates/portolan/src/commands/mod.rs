//! The commands that ask and show.

mod cleanup;
mod environment;
mod shadow;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use portolan_explain::{PacketQuestion, Style};
use portolan_plan::Plan;
use portolan_source::Options;
use serde::Serialize;

use crate::config::{self, Keep};
use crate::control::{Answer, Question, ask};
use crate::flags::{
    DiffFlags, ExplainFlags, FactFlags, Output, OutputFlags, QuestionFlags, RenderFlags, ServicesFlags, TrafficFlags,
    VerifyFlags,
};
use crate::ipvs::IpvsChoices;
use crate::modes::{ModeSettings, Spelling, spelling};
use crate::offline::load;

pub use cleanup::{cleanup, cleanup_all};
pub use environment::{environment, run};
pub use shadow::shadow;
pub(crate) use shadow::show_comparison;

pub const SUCCESS: u8 = 0;
/// The answer is "no": a difference was found.
pub const DIFFERENT: u8 = 1;
pub const FAILURE: u8 = 2;

fn load_from(facts: &FactFlags, traffic: &TrafficFlags, paths: &[PathBuf]) -> anyhow::Result<Plan> {
    let options = Options { paths: paths.to_vec(), ..config::source_options(facts, Keep::Nothing)? };
    load(options, &config::plan_config(traffic)?)
}

/// The plan of the manifests on the command line; `None` means that the running daemon is to be asked.
fn offline(flags: &QuestionFlags) -> anyhow::Result<Option<Plan>> {
    if flags.facts.manifests.manifests.is_empty() {
        return Ok(None);
    }
    load_from(&flags.facts, &flags.traffic, &flags.facts.manifests.manifests).map(Some)
}

fn mode(traffic: &TrafficFlags) -> Box<dyn Spelling> {
    let TrafficFlags { proxy_mode, masquerade_bit, .. } = *traffic;
    let udp_idle = std::time::Duration::ZERO;
    let ipvs = IpvsChoices { scheduler: traffic.ipvs_scheduler.clone(), ..IpvsChoices::default() };
    spelling(ModeSettings { mode: proxy_mode, masquerade_bit, traffic_counters: true, udp_idle, ipvs }, None)
}

/// Colour is for terminals only.
fn style() -> Style {
    Style { colour: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
}

fn show<T: Serialize>(flags: &OutputFlags, answer: &T, text: impl FnOnce(&T, Style) -> String) -> anyhow::Result<()> {
    match flags.output {
        Output::Text => write_out(&text(answer, style())),
        Output::Json => write_out(&(serde_json::to_string_pretty(answer)? + "\n")),
    }
}

/// A reader who has seen enough, such as `head`, is no error.
fn write_out(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing the answer"),
    }
}

pub fn render(flags: &RenderFlags) -> anyhow::Result<u8> {
    let plan = load_from(&flags.facts, &flags.traffic, &flags.facts.manifests.manifests)?;
    let (listing, objects) = mode(&flags.traffic).render(&plan);
    let rendered: Vec<RenderedObject> = objects.iter().map(|(key, value)| RenderedObject::new(key, value)).collect();
    show(&flags.output, &rendered, |_, _| listing)?;
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

pub fn explain(flags: &ExplainFlags) -> anyhow::Result<u8> {
    let question = packet_question(flags)?;
    let packet = question.packet().map_err(|mistake| anyhow!(mistake))?;
    let answer = match offline(&flags.question)? {
        Some(plan) => mode(&flags.question.traffic).explain_offline(&plan, &packet),
        None => match ask(&flags.question.control.control_socket, &Question::Packet(question))? {
            Answer::Packet(answer) => *answer,
            other => return unexpected(&other),
        },
    };
    show(&flags.question.output, &answer, |answer, style| answer.text(style))?;
    Ok(if answer.disagreement.is_some() { DIFFERENT } else { SUCCESS })
}

fn packet_question(flags: &ExplainFlags) -> anyhow::Result<PacketQuestion> {
    let (destination, protocol) = flags.destination.rsplit_once('/').unwrap_or((&flags.destination, "tcp"));
    let socket: std::net::SocketAddr = destination.parse().with_context(|| {
        format!(
            "{:?} is not a destination: write ADDRESS:PORT or [ADDRESS]:PORT, with /udp or /sctp",
            flags.destination
        )
    })?;
    Ok(PacketQuestion {
        source: flags.source,
        interface: flags.interface.clone(),
        destination: socket.ip(),
        port: socket.port(),
        protocol: protocol.into(),
    })
}

pub fn services(flags: &ServicesFlags) -> anyhow::Result<u8> {
    let answer = match offline(&flags.question)? {
        Some(plan) => portolan_explain::services(&plan),
        None => match ask(&flags.question.control.control_socket, &Question::Services)? {
            Answer::Services(answer) => answer,
            other => return unexpected(&other),
        },
    };
    show(&flags.question.output, &answer, |answer, style| answer.text(style))?;
    Ok(SUCCESS)
}

pub fn verify(flags: &VerifyFlags) -> anyhow::Result<u8> {
    let answer = match offline(&flags.question)? {
        Some(plan) => mode(&flags.question.traffic).verify(&plan)?,
        None => match ask(&flags.question.control.control_socket, &Question::Verify)? {
            Answer::Verify(answer) => answer,
            other => return unexpected(&other),
        },
    };
    show(&flags.question.output, &answer, |answer, style| answer.text(style))?;
    Ok(if answer.agrees() { SUCCESS } else { DIFFERENT })
}

pub fn diff(flags: &DiffFlags) -> anyhow::Result<u8> {
    let QuestionFlags { facts, traffic, control, output } = &flags.question;
    config::require_manifests(&facts.manifests.manifests)?;
    let answer = if flags.from.is_empty() {
        let manifests = facts.manifests.manifests.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
        match ask(&control.control_socket, &Question::Difference { manifests })? {
            Answer::Difference(answer) => answer,
            other => return unexpected(&other),
        }
    } else {
        let before = load_from(facts, traffic, &flags.from)?;
        let after = load_from(facts, traffic, &facts.manifests.manifests)?;
        mode(traffic).difference(&before, &after)
    };
    show(output, &answer, |answer, style| answer.text(style))?;
    Ok(if answer.is_empty() { SUCCESS } else { DIFFERENT })
}

fn unexpected(answer: &Answer) -> anyhow::Result<u8> {
    bail!("the daemon answered another question ({answer:?}): is it of another version?")
}
