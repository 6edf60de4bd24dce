//! Screens as text, compared with the files beside this one. UPDATE_EXPECT=1 writes them.

use std::path::Path;

use portolan_explain::top::TopRow;
use portolan_top::{Input, Reading, State, draw};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;

use crate::sample::{answer, change, endpoints, letters, live, press, row, take};

fn drawn(state: &mut State, width: u16, height: u16) -> Terminal<TestBackend> {
    state.update(Input::Height(height));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    terminal
}

/// A line for each line of the screen, without the blanks at its end.
fn screen(state: &mut State, width: u16, height: u16) -> String {
    let terminal = drawn(state, width, height);
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned() + "\n";
    (0..height).map(line).collect()
}

fn check(name: &str, state: &mut State, width: u16, height: u16) {
    let text = screen(state, width, height);
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/top/screens").join(format!("{name}-{width}x{height}.txt"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{}: UPDATE_EXPECT=1 writes it", path.display());
}

#[test]
fn services() {
    check("services", &mut live(), 80, 24);
    check("services", &mut live(), 120, 40);
    check("services", &mut live(), 40, 10);
    check("services", &mut live(), 10, 3);
}

/// docs/top.md has the screens of these tests.
#[test]
fn the_documentation_has_these_screens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(folder.join("../../docs/top.md")).unwrap();
    for name in ["services-80x24.txt", "endpoints-80x24.txt"] {
        let screen = std::fs::read_to_string(folder.join("tests/top/screens").join(name)).unwrap();
        let rows = screen.lines().filter(|line| !line.is_empty() && !line.starts_with("q quit"));
        let missing: Vec<&str> = rows.filter(|line| !page.contains(line)).collect();
        assert!(missing.is_empty(), "docs/top.md lacks {missing:?}");
    }
}

fn with_endpoints() -> State {
    let mut state = live();
    press(&mut state, &[KeyCode::Enter]);
    for (reading, factor) in [(3, 1), (4, 2)] {
        let mut more = answer(reading, reading * 1000, Vec::new());
        more.endpoints = Some(endpoints(factor));
        take(&mut state, more);
    }
    state
}

#[test]
fn endpoints_of_a_service() {
    check("endpoints", &mut with_endpoints(), 80, 24);
    check("endpoints", &mut with_endpoints(), 120, 40);
    check("endpoints", &mut with_endpoints(), 40, 10);
}

#[test]
fn the_log_of_changes() {
    let mut state = live();
    let changes = (1..=30).map(change).collect();
    let reading = Reading { answer: answer(3, 3000, Vec::new()), changes };
    state.update(Input::Reading(Box::new(reading)));
    press(&mut state, &letters("c"));
    check("changes", &mut state, 80, 24);
    press(&mut state, &[KeyCode::PageDown]);
    assert!(!screen(&mut state, 80, 24).contains("10.244.2.30 "));
}

#[test]
fn help() {
    let mut state = live();
    press(&mut state, &letters("?"));
    check("help", &mut state, 80, 24);
}

#[test]
fn a_daemon_that_does_not_answer_is_said_in_words() {
    let mut state = live();
    state.update(Input::Failure("connecting to the daemon at /run/portolan/portolan.sock: refused".into()));
    check("not-live", &mut state, 80, 24);
    take(&mut state, answer(3, 3000, Vec::new()));
    assert!(!screen(&mut state, 80, 24).contains("NOT LIVE"), "the next answer clears it");
}

#[test]
fn ten_thousand_services_have_pages() {
    let mut state = State { height: 24, ..State::default() };
    let rows = (0..10_000).map(|number| row(&format!("default/service-{number:05}"), number, 1, 1, (3, 3))).collect();
    take(&mut state, answer(1, 1000, rows));
    press(&mut state, &letters("1"));
    press(&mut state, &[KeyCode::PageDown, KeyCode::Down]);
    check("many", &mut state, 80, 24);
}

#[test]
fn before_the_first_answer() {
    let text = screen(&mut State::default(), 80, 24);
    assert!(text.starts_with("portolan top: waiting for the daemon's first answer\n"), "{text}");
}

/// Names come from objects of the cluster.
#[test]
fn names_cannot_move_the_cursor() {
    let mut state = State::default();
    let hostile =
        TopRow { refuses: Some("\u{1b}[2J".into()), ..row("evil/\u{1b}]0;x\u{7}\u{202e}name", 1, 1, 1, (1, 1)) };
    take(&mut state, answer(1, 1000, vec![hostile]));
    let text = screen(&mut state, 120, 24);
    assert!(
        !text.chars().any(|letter| letter.is_control() && letter != '\n') && !text.contains('\u{202e}'),
        "{text:?}"
    );
}

#[test]
fn no_colour_leaves_words_and_marks() {
    for (has_colour, is_coloured) in [(true, true), (false, false)] {
        let mut state = State { has_colour, ..live() };
        let terminal = drawn(&mut state, 80, 24);
        let cells = terminal.backend().buffer().content();
        assert_eq!(cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset), is_coloured);
    }
    assert!(screen(&mut live(), 80, 24).lines().any(|line| line.starts_with(">default/web:http")));
}

/// Whatever the size, nothing panics.
#[test]
fn every_size_can_be_drawn() {
    let mut states = [live(), with_endpoints(), State::default()];
    for state in &mut states {
        for (width, height) in
            (1..130).step_by(7).flat_map(|width| (1..30).step_by(4).map(move |height| (width, height)))
        {
            screen(state, width, height);
        }
    }
}
