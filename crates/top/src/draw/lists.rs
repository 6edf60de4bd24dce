//! Endpoints of a Service, the log of changes, and help.

use portolan_explain::printable;
use portolan_explain::top::TopEndpoint;

use super::{Canvas, Look, cell};
use crate::board::Live;
use crate::keys::HELP;
use crate::numbers::{rate, short};
use crate::state::State;

/// Heading, width with the space before it, whether it is aligned at the right, and the least screen that shows it.
type Field = (&'static str, usize, bool, u16, fn(&Live<TopEndpoint>) -> String);

const FIELDS: [Field; 8] = [
    ("STATE", 13, false, 0, |live| live.row.state.clone()),
    ("CONN/S", 8, true, 0, |live| rate(live.rates.map(|it| it.connections))),
    ("BYTES/S", 9, true, 56, |live| rate(live.rates.map(|it| it.bytes))),
    ("OPEN", 6, true, 50, |live| live.row.open.map_or("-".into(), |open| short(f64::from(open)))),
    ("SHARE", 8, true, 64, |live| format!("{:.1}%", live.row.share)),
    ("POD", 18, false, 80, |live| live.row.pod.clone().unwrap_or_else(|| "-".into())),
    ("NODE", 16, false, 108, |live| live.row.node.clone().unwrap_or_else(|| "-".into())),
    ("ZONE", 12, false, 120, |live| live.row.zone.clone().unwrap_or_else(|| "-".into())),
];

pub(super) fn endpoints(state: &State, canvas: &mut Canvas<'_>) {
    let fields: Vec<Field> = FIELDS.into_iter().filter(|field| canvas.width() >= field.3).collect();
    let name = usize::from(canvas.width()).saturating_sub(1 + fields.iter().map(|field| field.1).sum::<usize>());
    let heading = fields.iter().map(|field| format!(" {}", cell(field.0, field.1 - 1, field.2)));
    canvas.line(2, &format!(" {}{}", cell("ENDPOINT", name, false), heading.collect::<String>()), Look::Heading);
    let Some(endpoints) = &state.board.endpoints else {
        return canvas.row(0, " waiting for the next answer, or the Service is gone", Look::Plain);
    };
    if endpoints.is_empty() {
        return canvas.row(0, " it has no endpoints", Look::Wrong);
    }
    for (number, live) in endpoints.iter().skip(state.scroll).take(canvas.rows()).enumerate() {
        let cells = fields.iter().map(|field| format!(" {}", cell(&printable(&field.4(live)), field.1 - 1, field.2)));
        let line = format!(" {}{}", cell(&live.row.endpoint, name, false), cells.collect::<String>());
        let look = if live.row.state == "in the pool" { Look::Plain } else { Look::Wrong };
        canvas.row(number, &line, look);
    }
}

pub(super) fn changes(state: &State, canvas: &mut Canvas<'_>) {
    canvas.line(2, " CHANGES (UTC), newest first: when, how long from the event to the kernel, why", Look::Heading);
    if state.board.changes.lines.is_empty() {
        return canvas.row(0, " no change so far", Look::Plain);
    }
    let (rows, width) = (canvas.rows(), usize::from(canvas.width()) - 1);
    let lines = state.board.changes.lines.iter().skip(state.scroll).flat_map(|line| wrapped(&printable(line), width));
    for (number, line) in lines.take(rows).enumerate() {
        canvas.row(number, &format!(" {line}"), Look::Plain);
    }
}

/// A long line continues under its own text.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let room = width.saturating_sub(CONTINUED.len()).max(1);
    let (first, rest) = letters.split_at(letters.len().min(width));
    let mut lines = vec![first.iter().collect::<String>()];
    lines.extend(rest.chunks(room).map(|part| format!("{CONTINUED}{}", part.iter().collect::<String>())));
    lines
}

const CONTINUED: &str = "     ";

pub(super) fn help(canvas: &mut Canvas<'_>) {
    canvas.line(2, " KEYS", Look::Heading);
    let rows = canvas.rows();
    for (number, (keys, what)) in HELP.iter().enumerate().take(rows) {
        canvas.row(number, &format!(" {keys:<18} {what}"), Look::Plain);
    }
    let meanings = [
        "",
        " CONN/S   new connections per second (UDP: flows)   BYTES/S  both directions",
        " READY    endpoints: ready/all, ! some do not answer  CHG     changes, of the last 1,000",
        " REFUSES  why some clients of the Service are refused",
    ];
    for (number, line) in meanings.iter().enumerate().take(rows.saturating_sub(HELP.len())) {
        canvas.row(HELP.len() + number, line, Look::Plain);
    }
}
