//! A live table of Services, or one reading of it.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use portolan_explain::ChangeEntry;
use portolan_explain::top::{Cursor, TopQuestion};
use portolan_kernel::signal::block_termination_signals;
use portolan_top::{Input, Reading, State, Summary, Wanted, require_terminal};

use super::{another_version, show};
use crate::control::{Answer, Question, query};
use crate::exit::SUCCESS;
use crate::flags::{Output, TopFlags};

/// Each reading costs the daemon something; it has no new one within a shorter time.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(200);
/// Where a reading is expensive, the daemon repeats the last one for a while.
const MOST_TRIES: usize = 60;
/// All that the daemon keeps.
const MOST_CHANGES: usize = 1000;

pub fn top(flags: &TopFlags) -> anyhow::Result<u8> {
    let mut daemon = Daemon { socket: flags.control.control_socket.clone(), since: None, newest: 0 };
    let state = State {
        filter: flags.filter.join(" "),
        sort: flags.sort.sort(),
        has_colour: std::env::var_os("NO_COLOR").is_none(),
        ..State::default()
    };
    if flags.once || flags.output.output == Output::Json {
        return once(flags, state, &mut daemon);
    }
    require_terminal(std::env::var("TERM").ok().as_deref())?;
    // Before the screen: a socket that does not exist is better reported where it stays readable.
    let first = daemon.ask(&Wanted::default())?;
    let signals = block_termination_signals()?;
    let mut state = state;
    state.update(Input::Reading(Box::new(first)));
    let ask = Box::new(move |wanted: &Wanted| daemon.ask(wanted));
    portolan_top::run(state, ask, flags.interval.max(SHORTEST_INTERVAL), signals)?;
    Ok(SUCCESS)
}

/// Rates need two readings.
fn once(flags: &TopFlags, mut state: State, daemon: &mut Daemon) -> anyhow::Result<u8> {
    let first = daemon.ask(&Wanted::default())?;
    let at = first.answer.at;
    state.update(Input::Reading(Box::new(first)));
    for _ in 0..MOST_TRIES {
        std::thread::sleep(flags.interval.max(SHORTEST_INTERVAL));
        let next = daemon.ask(&Wanted::default())?;
        let is_new = next.answer.at != at;
        state.update(Input::Reading(Box::new(next)));
        if is_new {
            break;
        }
    }
    show(&flags.output, &Summary::of(&state), |_, style| portolan_top::text(&state, style))?;
    Ok(SUCCESS)
}

/// The running daemon, and what it has answered so far.
struct Daemon {
    socket: PathBuf,
    since: Option<Cursor>,
    /// The number of the last change.
    newest: u64,
}

impl Daemon {
    fn ask(&mut self, wanted: &Wanted) -> anyhow::Result<Reading> {
        let changes = self.changes()?;
        let question = TopQuestion { since: self.since, service: wanted.service.clone() };
        match query(&self.socket, &Question::Top(question))? {
            Answer::Top(answer) => {
                self.since = Some(answer.cursor);
                Ok(Reading { answer, changes })
            }
            other => bail!("{}", another_version(&other)),
        }
    }

    fn changes(&mut self) -> anyhow::Result<Vec<ChangeEntry>> {
        match query(&self.socket, &Question::Changes { after: self.newest, most: MOST_CHANGES })? {
            Answer::Changes(answer) => {
                self.newest = answer.newest;
                Ok(answer.changes)
            }
            other => bail!("{}", another_version(&other)),
        }
    }
}
