//! What the keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::columns::Column;
use crate::state::{Next, State, View};

/// For the screen of help.
pub(crate) const HELP: [(&str, &str); 12] = [
    ("Up, Down, k, j", "one row"),
    ("PgUp, PgDn, Space", "one page"),
    ("Home, End, g, G", "the first row, the last row"),
    ("Enter", "the endpoints of the marked Service"),
    ("Esc, Backspace", "back; without anything to go back to, Esc quits"),
    ("/", "filter by words of the name, or of the reason for a refusal"),
    ("s, S, <, >", "sort by the next column, or by the one before"),
    ("1 to 7", "sort by that column; again for the other direction"),
    ("r", "the other direction"),
    ("c", "the log of changes"),
    ("?, h", "this text"),
    ("q, Ctrl-C", "quit"),
];

/// A filter is a few words.
const LONGEST_FILTER: usize = 200;

pub(crate) fn press(state: &mut State, key: KeyEvent) -> Next {
    if key.kind == KeyEventKind::Release {
        return Next::Draw;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return if key.code == KeyCode::Char('c') { Next::Quit } else { Next::Draw };
    }
    let before = state.service().map(str::to_owned);
    let next = if state.is_typing { type_filter(state, key.code) } else { command(state, key.code) };
    // Readings without endpoints cost less.
    if next == Next::Draw && before.as_deref() != state.service() { Next::Ask } else { next }
}

fn type_filter(state: &mut State, code: KeyCode) -> Next {
    match code {
        KeyCode::Enter => state.is_typing = false,
        KeyCode::Esc => (state.is_typing, state.filter) = (false, String::new()),
        KeyCode::Backspace => _ = state.filter.pop(),
        KeyCode::Char(letter) if state.filter.len() < LONGEST_FILTER => state.filter.push(letter),
        _ => {}
    }
    Next::Draw
}

fn command(state: &mut State, code: KeyCode) -> Next {
    match code {
        KeyCode::Char('q') => return Next::Quit,
        KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => return back(state, code == KeyCode::Esc),
        KeyCode::Enter | KeyCode::Right => open(state),
        KeyCode::Char('c') => show(state, View::Changes),
        KeyCode::Char('?' | 'h') => show(state, View::Help),
        KeyCode::Char('/') if state.view == View::Services => state.is_typing = true,
        KeyCode::Char('s' | '>') => state.sort = state.sort.beside(true),
        KeyCode::Char('S' | '<') => state.sort = state.sort.beside(false),
        KeyCode::Char('r') => state.sort = state.sort.reversed(),
        KeyCode::Char(digit @ '1'..='7') => sort_by(state, digit),
        other => go(state, other),
    }
    Next::Draw
}

fn show(state: &mut State, view: View) {
    // The same key leads back.
    state.view = if state.view == view { View::Services } else { view };
    state.scroll = 0;
}

fn back(state: &mut State, may_quit: bool) -> Next {
    if state.view != View::Services {
        show(state, View::Services);
    } else if !state.filter.is_empty() {
        state.filter.clear();
    } else if may_quit {
        return Next::Quit;
    }
    Next::Draw
}

fn open(state: &mut State) {
    if state.view != View::Services {
        return;
    }
    let rows = state.rows();
    let Some(service) = rows.get(state.index(&rows)).map(|live| live.row.service.clone()) else { return };
    state.selected = Some(service.clone());
    state.board.forget_endpoints();
    show(state, View::Endpoints(service));
}

fn sort_by(state: &mut State, digit: char) {
    let number = digit.to_digit(10).unwrap_or(1) as usize;
    let column = Column::ALL[(number - 1).min(Column::ALL.len() - 1)];
    state.sort = if state.sort.column == column { state.sort.reversed() } else { column.sort() };
}

/// Moves the mark, or the text where there is none.
fn go(state: &mut State, code: KeyCode) {
    let (page, last) = (state.page(), state.lines().saturating_sub(1));
    let from = match state.view {
        View::Services => state.index(&state.rows()),
        _ => state.scroll,
    };
    let to = match code {
        KeyCode::Up | KeyCode::Char('k') => from.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => from + 1,
        KeyCode::PageUp => from.saturating_sub(page),
        KeyCode::PageDown | KeyCode::Char(' ') => from + page,
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => return,
    };
    let to = to.min(last);
    match state.view {
        View::Services => state.selected = state.rows().get(to).map(|live| live.row.service.clone()),
        _ => state.scroll = to,
    }
}
