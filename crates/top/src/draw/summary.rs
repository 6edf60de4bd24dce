//! The lines above and below the table.

use portolan_explain::printable;

use super::{Canvas, Look};
use crate::board::{Live, Rates};
use crate::numbers::{rate, short};
use crate::state::{State, View};

pub(super) fn head(state: &State, canvas: &mut Canvas<'_>) {
    let board = &state.board;
    if !board.is_known() {
        return canvas.line(0, "portolan top: waiting for the daemon's first answer", Look::Heading);
    }
    let title =
        format!("portolan top  {}  {} mode  {} Service ports", board.node, board.mode, short(board.rows.len() as f64));
    canvas.line(0, &with_place(state, title, canvas), Look::Heading);
    match (&state.problem, &state.view) {
        (Some(problem), _) => canvas.line(1, &format!("NOT LIVE: {}", first_line(problem)), Look::Wrong),
        (None, View::Endpoints(service)) => {
            canvas.line(1, &format!("endpoints of {}", printable(service)), Look::Plain);
        }
        (None, _) => canvas.line(1, &sums(state), Look::Plain),
    }
}

/// Which lines of all are on the screen, at the right, where there is room.
fn with_place(state: &State, title: String, canvas: &Canvas<'_>) -> String {
    let place = place(state, canvas.rows());
    let (room, used) = (usize::from(canvas.width()), title.chars().count());
    match room.checked_sub(used + place.chars().count() + 2) {
        Some(spare) => format!("{title}{}  {place}", " ".repeat(spare)),
        None => title,
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn sums(state: &State) -> String {
    let rows = state.board.rows.values();
    let sum = |key: fn(&Rates) -> f64| {
        let known: Vec<f64> = rows.clone().filter_map(|live| live.rates.as_ref().map(key)).collect();
        rate((!known.is_empty()).then(|| known.iter().sum()))
    };
    let open: u64 = rows.clone().map(|Live { row, .. }| u64::from(row.open.unwrap_or(0))).sum();
    let line = format!(
        "new {}/s  bytes {}/s  open {}  refused {}",
        sum(|it| it.connections),
        sum(|it| it.bytes),
        short(open as f64),
        refused(state)
    );
    let notes = state.board.notes.iter().map(|note| format!("  ({note})"));
    line + &notes.collect::<String>()
}

/// `3/s (no-endpoints 2, unknown-port 1)`: reasons with a rate.
fn refused(state: &State) -> String {
    let known: Vec<(&String, f64)> =
        state.board.refusals.iter().filter_map(|(reason, it)| it.rate.map(|rate| (reason, rate))).collect();
    let total: f64 = known.iter().map(|(_, rate)| rate).sum();
    let busy = known.iter().filter(|(_, rate)| *rate > 0.0);
    let reasons: Vec<String> = busy.map(|(reason, rate)| format!("{reason} {}", short(*rate))).collect();
    let rate = rate((!known.is_empty() || state.board.rows.values().any(|it| it.rates.is_some())).then_some(total));
    if reasons.is_empty() { format!("{rate}/s") } else { format!("{rate}/s ({})", reasons.join(", ")) }
}

pub(super) fn foot(state: &State, canvas: &mut Canvas<'_>) {
    let last = canvas.area.height - 1;
    if state.is_typing {
        return canvas.line(last, &format!("filter: {}_  (Enter keeps it, Esc removes it)", state.filter), Look::Plain);
    }
    let text = match &state.view {
        View::Services if state.filter.is_empty() => {
            "q quit  Enter endpoints  c changes  / filter  s sort  r reverse  ? help".to_owned()
        }
        View::Services => format!("filter: {}  (Esc removes it)", state.filter),
        _ => "q quit  Esc back  Up, Down, PgUp, PgDn scroll  ? help".to_owned(),
    };
    canvas.line(last, &text, Look::Quiet);
}

fn place(state: &State, rows: usize) -> String {
    let total = state.lines();
    let first = match state.view {
        View::Services => state.index(&state.rows()) / rows.max(1) * rows.max(1),
        View::Help => return String::new(),
        _ => state.scroll,
    };
    if total <= rows { String::new() } else { format!("{}-{} of {total}", first + 1, (first + rows).min(total)) }
}
