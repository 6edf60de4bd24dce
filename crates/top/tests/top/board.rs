//! Rates from readings.

use portolan_top::{Rates, State};

use crate::sample::{answer, live, row, take};

fn rates(state: &State, service: &str) -> Option<Rates> {
    state.board.rows[service].rates
}

#[test]
fn rates_need_two_readings_and_follow_the_time_between() {
    let mut state = State::default();
    take(&mut state, answer(1, 1000, vec![row("a/b", 100, 10, 1, (1, 1))]));
    assert_eq!(rates(&state, "a/b"), None);
    take(&mut state, answer(2, 3000, vec![row("a/b", 140, 20, 1, (1, 1))]));
    assert_eq!(rates(&state, "a/b"), Some(Rates { connections: 20.0, bytes: 20.0 }));
}

#[test]
fn a_row_that_an_answer_leaves_out_is_idle() {
    let mut state = live();
    take(&mut state, answer(3, 3000, Vec::new()));
    assert_eq!(rates(&state, "default/web:http"), Some(Rates::default()));
}

/// The daemon answers with the same reading if another one would cost too much.
#[test]
fn a_repeated_reading_keeps_the_rates() {
    let mut state = live();
    let before = rates(&state, "default/web:http");
    take(&mut state, answer(2, 2000, Vec::new()));
    assert_eq!(rates(&state, "default/web:http"), before);
    assert_eq!(before.unwrap().connections, 153.0);
}

#[test]
fn counters_that_restart_are_no_burst() {
    let mut state = live();
    take(&mut state, answer(3, 3000, vec![row("default/web:http", 5, 5, 1, (2, 3))]));
    assert_eq!(rates(&state, "default/web:http"), Some(Rates::default()));
}

/// A new daemon's clock begins again, so that its first reading has no rates.
#[test]
fn another_daemon_replaces_all_rows() {
    let mut state = live();
    let mut other = answer(1, 10, vec![row("default/new", 7, 7, 0, (1, 1))]);
    other.cursor.book = 2;
    take(&mut state, other);
    assert_eq!(state.board.rows.keys().collect::<Vec<_>>(), ["default/new"]);
    assert_eq!(rates(&state, "default/new"), None);
}

#[test]
fn removed_services_go() {
    let mut state = live();
    let mut gone = answer(3, 3000, Vec::new());
    gone.removed = vec!["default/api".into()];
    take(&mut state, gone);
    assert!(!state.board.rows.contains_key("default/api"));
    assert_eq!(state.board.rows.len(), 3);
}

#[test]
fn refusals_have_rates_of_their_own() {
    let state = live();
    assert_eq!(state.board.refusals["no-endpoints"].rate, Some(3.0));
}
