//! What changed, once or as it happens.

use std::time::Duration;

use portolan_explain::{ChangeEntry, ChangesAnswer};

use super::{show, style, unexpected, write_out};
use crate::control::{Answer, Question, query};
use crate::exit::SUCCESS;
use crate::flags::{ChangesFlags, Output};

/// The time between two questions of `--watch`.
const LOOK_EVERY: Duration = Duration::from_millis(500);

pub fn changes(flags: &ChangesFlags) -> anyhow::Result<u8> {
    let mut answer = match read(flags, 0)? {
        Ok(answer) => answer,
        Err(other) => return unexpected(&other),
    };
    if !flags.watch {
        show(&flags.output, &answer, |answer, style| answer.text(style))?;
        return Ok(SUCCESS);
    }
    let mut is_read = match flags.output.output {
        Output::Text => write_out(&answer.text(style()))?,
        Output::Json => print(flags, &answer.changes)?,
    };
    // Until the reader of a pipe has ended.
    while is_read {
        std::thread::sleep(LOOK_EVERY);
        answer = match read(flags, answer.newest)? {
            Ok(answer) => answer,
            Err(other) => return unexpected(&other),
        };
        is_read = print(flags, &answer.changes)?;
    }
    Ok(SUCCESS)
}

fn read(flags: &ChangesFlags, after: u64) -> anyhow::Result<Result<ChangesAnswer, Answer>> {
    let question = Question::Changes { after, most: flags.limit };
    Ok(match query(&flags.control.control_socket, &question)? {
        Answer::Changes(mut answer) => {
            answer.changes.retain(|change| is_wanted(flags.service.as_deref(), change));
            Ok(answer)
        }
        other => Err(other),
    })
}

/// A change of more Services than are listed may be about any of them.
fn is_wanted(service: Option<&str>, change: &ChangeEntry) -> bool {
    let Some(wanted) = service else { return true };
    let is_meant = |name: &String| name == wanted || name.split_once('/').is_some_and(|(_, name)| name == wanted);
    change.more_services > 0 || change.services.iter().any(is_meant)
}

/// A line for each. Returns whether anyone still reads them.
fn print(flags: &ChangesFlags, changes: &[ChangeEntry]) -> anyhow::Result<bool> {
    let line = |change: &ChangeEntry| match flags.output.output {
        Output::Text => Ok(change.line() + "\n"),
        Output::Json => serde_json::to_string(change).map(|text| text + "\n"),
    };
    let lines: String = changes.iter().map(line).collect::<Result<_, _>>()?;
    if lines.is_empty() { Ok(true) } else { write_out(&lines) }
}
