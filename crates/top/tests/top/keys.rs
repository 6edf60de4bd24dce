//! What keys do to a state.

use portolan_top::{Column, Input, Next, State, View};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::sample::{letters, live, press};

fn names(state: &State) -> Vec<String> {
    state.rows().into_iter().map(|live| live.row.service.clone()).collect()
}

fn marked(state: &State) -> String {
    let rows = state.rows();
    rows[state.index(&rows)].row.service.clone()
}

fn next(state: &mut State, code: KeyCode) -> Next {
    state.update(Input::Key(KeyEvent::from(code)))
}

#[test]
fn the_busiest_service_is_first() {
    let mut state = live();
    assert_eq!(names(&state)[0], "default/web:http");
    assert_eq!(names(&state)[1], "kube-system/kube-dns:dns/udp");
    press(&mut state, &letters("1"));
    assert_eq!(names(&state)[0], "default/api", "names count up");
    press(&mut state, &letters("1"));
    assert!(names(&state)[0].starts_with("shop/"), "the same key again is the other direction");
}

#[test]
fn every_column_can_be_sorted_by() {
    let mut state = live();
    for column in Column::ALL {
        state.sort = column.sort();
        assert_eq!(names(&state).len(), 4);
    }
    let mut state = live();
    press(&mut state, &letters("7"));
    assert_eq!(names(&state)[0], "shop/a-service-with-quite-a-long-name:https-alternative");
    press(&mut state, &letters("5"));
    assert_eq!(names(&state)[0], "default/api", "no endpoint is ready");
    press(&mut state, &letters("s"));
    assert_eq!(state.sort, Column::Changes.sort());
    press(&mut state, &letters("<r"));
    assert_eq!((state.sort.column, state.sort.is_descending), (Column::Ready, true));
}

#[test]
fn a_filter_has_words_of_names_and_reasons() {
    let mut state = live();
    press(&mut state, &letters("/"));
    assert!(state.is_typing);
    press(&mut state, &letters("q default web"));
    assert_eq!(names(&state), Vec::<String>::new(), "q is a letter here");
    press(&mut state, &[KeyCode::Backspace; 13]);
    press(&mut state, &letters("no-local"));
    press(&mut state, &[KeyCode::Enter]);
    assert_eq!(names(&state).len(), 1);
    assert_eq!(next(&mut state, KeyCode::Esc), Next::Draw, "the filter goes first");
    assert_eq!((state.filter.as_str(), names(&state).len()), ("", 4));
    assert_eq!(next(&mut state, KeyCode::Esc), Next::Quit);
}

#[test]
fn a_filter_is_bounded() {
    let mut state = live();
    press(&mut state, &letters("/"));
    press(&mut state, &letters(&"x".repeat(10_000)));
    assert!(state.filter.len() <= 200);
}

#[test]
fn enter_asks_for_endpoints_and_esc_leads_back() {
    let mut state = live();
    press(&mut state, &[KeyCode::Down]);
    assert_eq!(next(&mut state, KeyCode::Enter), Next::Ask);
    assert_eq!(state.view, View::Endpoints("kube-system/kube-dns:dns/udp".into()));
    assert_eq!(state.service(), Some("kube-system/kube-dns:dns/udp"));
    assert_eq!(next(&mut state, KeyCode::Esc), Next::Ask, "readings without endpoints cost less");
    assert_eq!((&state.view, state.service()), (&View::Services, None));
    assert_eq!(marked(&state), "kube-system/kube-dns:dns/udp");
}

/// The mark follows a Service, not a place: Enter opens what is marked, also when the order changes.
#[test]
fn the_mark_stays_on_its_service() {
    let mut state = live();
    press(&mut state, &[KeyCode::Down]);
    let before = marked(&state);
    press(&mut state, &letters("1r"));
    assert_eq!(marked(&state), before);
}

#[test]
fn the_mark_stays_within_the_rows() {
    let mut state = live();
    press(&mut state, &[KeyCode::Up, KeyCode::PageUp]);
    assert_eq!(marked(&state), names(&state)[0]);
    press(&mut state, &[KeyCode::PageDown, KeyCode::Down]);
    assert_eq!(marked(&state), names(&state)[3]);
    press(&mut state, &letters("g"));
    assert_eq!(marked(&state), names(&state)[0]);
    press(&mut state, &[KeyCode::End]);
    assert_eq!(marked(&state), names(&state)[3]);
}

#[test]
fn ctrl_c_quits_everywhere() {
    for start in ["", "/", "c", "?"] {
        let mut state = live();
        press(&mut state, &letters(start));
        let key = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(state.update(Input::Key(key)), Next::Quit, "after {start:?}");
    }
    assert_eq!(live().update(Input::Stop), Next::Quit);
    assert_eq!(next(&mut live(), KeyCode::Char('q')), Next::Quit);
}

#[test]
fn a_state_without_rows_takes_all_keys() {
    let mut state = State::default();
    let codes = [KeyCode::Enter, KeyCode::Down, KeyCode::End, KeyCode::PageDown, KeyCode::Char('7'), KeyCode::F(1)];
    press(&mut state, &codes);
    assert_eq!(state.view, View::Services);
}
