//! Where a packet goes, and why.

use anyhow::{anyhow, bail};
use portolan_explain::{Names, PathAnswer, PathQuestion};

use super::{OFFLINE, Offline, show, unexpected};
use crate::control::{Answer, Question, query};
use crate::exit::{DIFFERENT, SUCCESS};
use crate::flags::ExplainFlags;
use crate::settings::DOMAIN;

pub fn explain(flags: &ExplainFlags) -> anyhow::Result<u8> {
    let question = PathQuestion {
        source: flags.source.clone(),
        destination: flags.destination.clone(),
        interface: flags.interface.clone(),
        on_node: flags.on_node,
        addresses: flags.source_addresses.clone(),
    };
    if flags.connection {
        return connection(flags, question);
    }
    // A mistake is reported before anything else is asked.
    question.check().map_err(|mistake| anyhow!(mistake))?;
    let is_of_addresses = question.is_of_addresses();
    let answer = match Offline::load_if_given(&flags.question)? {
        Some(offline) => from_manifests(&offline, &question)?,
        None => match query(&flags.question.control.control_socket, &Question::Path(question))? {
            Answer::Path(answer) => answer,
            other => return unexpected(&other),
        },
    };
    match answer.packets.as_slice() {
        // A question about one packet has one answer, and no list.
        [packet] if is_of_addresses => show(&flags.question.output, packet, |packet, style| packet.text(style))?,
        _ => show(&flags.question.output, &answer, |answer, style| answer.text(style))?,
    }
    Ok(if answer.disagrees() { DIFFERENT } else { SUCCESS })
}

/// Connections are those of the node, so that only its daemon knows them.
fn connection(flags: &ExplainFlags, question: PathQuestion) -> anyhow::Result<u8> {
    if !flags.question.settings.manifests.manifests.is_empty() {
        bail!("--connection needs the running daemon: leave out --manifests");
    }
    let answer = match query(&flags.question.control.control_socket, &Question::Connection(question))? {
        Answer::Connection(answer) => answer,
        other => return unexpected(&other),
    };
    show(&flags.question.output, &answer, |answer, style| answer.text(style))?;
    Ok(if answer.connection.is_some() { SUCCESS } else { DIFFERENT })
}

fn from_manifests(offline: &Offline, question: &PathQuestion) -> anyhow::Result<PathAnswer> {
    let plan = &offline.plan;
    let names = Names { plan, domain: DOMAIN, node: &|_| Vec::new() };
    let paths = question.paths(&names).map_err(|mistake| anyhow!(mistake))?;
    let met = offline.view().trace_all(plan, &paths.packets());
    Ok(PathAnswer::of(plan, &paths, &met, OFFLINE))
}
