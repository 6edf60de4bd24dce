//! The open connections of Services, once or as they come and go.

use std::time::Duration;

use portolan_explain::{ConnectionChange, ConnectionsAnswer};

use super::{show, style, unexpected, write_out};
use crate::control::{Answer, Question, query};
use crate::exit::SUCCESS;
use crate::flags::{ConnectionsFlags, Output};

pub fn connections(flags: &ConnectionsFlags) -> anyhow::Result<u8> {
    let mut last = match read(flags)? {
        Ok(answer) => answer,
        Err(other) => return unexpected(&other),
    };
    if !flags.watch {
        show(&flags.output, &last, |answer, style| answer.text(style))?;
        return Ok(SUCCESS);
    }
    let mut is_read = match flags.output.output {
        Output::Text => write_out(&last.text(style()))?,
        Output::Json => print_changes(flags, &last.changes_since(&ConnectionsAnswer::default()))?,
    };
    // Until the reader of a pipe has ended.
    while is_read {
        std::thread::sleep(flags.interval.max(SHORTEST_INTERVAL));
        let Ok(answer) = read(flags)? else { break };
        is_read = print_changes(flags, &answer.changes_since(&last))?;
        last = answer;
    }
    Ok(SUCCESS)
}

/// Each reading walks the connection table.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(200);

fn read(flags: &ConnectionsFlags) -> anyhow::Result<Result<ConnectionsAnswer, Answer>> {
    let question = Question::Connections { service: flags.service.clone(), most: flags.limit };
    Ok(match query(&flags.control.control_socket, &question)? {
        Answer::Connections(answer) => Ok(answer),
        other => Err(other),
    })
}

/// A line for each. Returns whether anyone still reads them.
fn print_changes(flags: &ConnectionsFlags, changes: &[ConnectionChange<'_>]) -> anyhow::Result<bool> {
    let line = |change: &ConnectionChange<'_>| match flags.output.output {
        Output::Text => Ok(format!("{}  {}\n", change.change, change.connection.line())),
        Output::Json => serde_json::to_string(change).map(|text| text + "\n"),
    };
    let lines: String = changes.iter().map(line).collect::<Result<_, _>>()?;
    write_out(&lines)
}
