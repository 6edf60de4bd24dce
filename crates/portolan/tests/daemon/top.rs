//! `portolan top` in a real terminal, beside the real daemon.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use portolan_testkit::{Protocol, topology};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::node::{Node, WEB, WEB_IP, service, web};
use crate::poll::until;
use crate::terminal::Terminal;

const ENDPOINTS: [&str; 2] = ["10.244.1.2", "10.244.2.2"];
const SMALL: (u16, u16) = (80, 24);

fn node() -> Node {
    let api = service("api", "10.96.0.90", "type: ClusterIP", &[]);
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &ENDPOINTS)), ("api.yaml", &api)]);
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    node
}

/// Starts a command that queries the daemon, in a terminal.
fn in_terminal(node: &Node, arguments: &[&str], size: (u16, u16), variables: &[(&str, &str)]) -> Terminal {
    let mut line = vec![env!("CARGO_BIN_EXE_portolan").to_owned()];
    line.extend(arguments.iter().map(ToString::to_string));
    line.extend(["--control-socket".into(), node.control_socket()]);
    node.lab.host(topology::NODE).run(|| Terminal::start(&line, size, variables))
}

/// The cell of a Service in a column of the table, counted from the name.
fn cell(screen: &str, service: &str, column: usize) -> Option<String> {
    let row = screen.lines().find(|line| line.trim_start_matches(['>', ' ']).starts_with(service))?;
    row.trim_start_matches(['>', ' ']).split_whitespace().nth(column).map(str::to_owned)
}

/// New connections appear as a rate within readings.
fn until_busy(node: &Node, terminal: &Terminal) {
    terminal.until("new connections per second of default/web", |screen| {
        node.answer("pod-a3", WEB, Protocol::Tcp);
        cell(screen, "default/web", 1).is_some_and(|rate| rate != "-" && rate != "0")
    });
}

#[test]
fn services_endpoints_and_changes_are_shown_live() {
    let node = node();
    let mut terminal = in_terminal(&node, &["top"], SMALL, &[]);
    terminal.until_shows("default/api");
    terminal
        .until("the reason for a refusal", |screen| cell(screen, "default/api", 6).as_deref() == Some("no-endpoints"));
    until_busy(&node, &terminal);
    let open = node.connect("pod-a3", WEB, Protocol::Tcp);
    terminal.until("an open connection", |screen| cell(screen, "default/web", 3).as_deref() == Some("1"));
    drop(open);

    terminal.press("/web\r");
    terminal.until("only web", |screen| screen.contains("default/web") && !screen.contains("default/api"));
    terminal.press("\r");
    terminal.until("both endpoints", |screen| {
        screen.contains("endpoints of default/web") && screen.matches("in the pool").count() == 2
    });
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    terminal.until("one endpoint", |screen| screen.matches("in the pool").count() == 1);

    terminal.press("c");
    terminal.until("the change", |screen| screen.contains("CHANGES") && screen.contains("10.244.2.2"));
    terminal.resize((120, 40));
    terminal.until("all lines of the larger screen", |screen| {
        screen.lines().nth(39).is_some_and(|line| line.starts_with("q quit"))
    });
    terminal.press("q");
    assert!(terminal.end().success());
    assert!(terminal.written().contains("\u{1b}[?1049h"), "it had a screen of its own");
}

type End = fn(&mut Terminal);

/// The modes of the terminal, its cursor and its screen: the same after every end.
#[test]
fn the_terminal_is_restored_whatever_ends_it() {
    let node = node();
    let ends: [(&str, End); 4] = [
        ("Esc", |terminal| terminal.press("\u{1b}")),
        ("Ctrl-C", |terminal| terminal.press("\u{3}")),
        ("SIGTERM", |terminal| terminal.signal(Signal::TERM)),
        ("SIGINT", |terminal| terminal.signal(Signal::INT)),
    ];
    for (name, end) in ends {
        let mut terminal = in_terminal(&node, &["top"], SMALL, &[("NO_COLOR", "1")]);
        terminal.until_shows("default/web");
        end(&mut terminal);
        assert!(terminal.end().success(), "after {name}");
        assert!(!terminal.written().contains("\u{1b}[38;"), "NO_COLOR: a colour is written");
    }
}

/// The daemon's end is said, and the screen is live again with the next one.
#[test]
fn a_daemon_that_ends_is_said_and_another_one_is_followed() {
    let mut node = node();
    let mut terminal = in_terminal(&node, &["top"], SMALL, &[]);
    terminal.until_shows("default/web");
    node.stop();
    terminal.until_shows("NOT LIVE");
    node.start();
    terminal.until("readings", |screen| !screen.contains("NOT LIVE") && screen.contains("default/web"));
    terminal.press("q");
    assert!(terminal.end().success());
}

/// Set for the process that a test starts from its own program.
const PANICS: &str = "PORTOLAN_TEST_PANICS_ON_SCREEN";

/// The part of the next test that runs in the terminal; alone it does nothing.
#[test]
fn a_panic_on_the_screen() {
    if std::env::var_os(PANICS).is_some() {
        let _screen = portolan_top::Screen::open().unwrap();
        panic!("this panic is part of the test");
    }
}

#[test]
fn a_panic_leaves_the_terminal_and_its_message() {
    let program = std::env::current_exe().unwrap().display().to_string();
    let line = [&*program, "--exact", "top::a_panic_on_the_screen", "--nocapture"].map(str::to_owned);
    let mut terminal = Terminal::start(&line, SMALL, &[(PANICS, "1")]);
    assert!(!terminal.end().success());
    until("the message", || {
        let written = terminal.written();
        let left = written.rfind("\u{1b}[?1049l").unwrap_or(usize::MAX);
        written.rfind("this panic is part of the test").is_some_and(|message| message > left)
    });
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let node = node();
    let output = node.query(&["top"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && text.contains("needs a terminal") && text.contains("--once"), "{text}");
    let mut terminal = in_terminal(&node, &["top"], SMALL, &[("TERM", "dumb")]);
    assert_eq!(terminal.end().code(), Some(2));
    until("the reason", || terminal.written().contains("TERM is \"dumb\""));
}

#[test]
fn one_reading_is_for_scripts() {
    let node = node();
    node.answer("pod-a3", WEB, Protocol::Tcp);
    let output = node.query(&["top", "--once", "--output", "json", "--interval", "200ms", "default/w"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let services = answer["services"].as_array().unwrap();
    assert_eq!(services.len(), 1, "{answer}");
    assert_eq!(services[0]["service"], "default/web");
    assert_eq!(services[0]["totals"]["connections"], 1);
    assert_eq!(services[0]["connections_per_second"], 0.0, "it was before the first reading");
    assert_eq!((&services[0]["ready"], &services[0]["endpoints"]), (&Value::from(2), &Value::from(2)));
    let output = node.query(&["top", "--once", "--interval", "200ms"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("SERVICE") && text.contains("no-endpoints") && output.status.success(), "{text}");
}

/// A reader that ends early, as `head` does, is no error.
#[test]
fn a_closed_pipe_is_no_error() {
    let node = node();
    let mut command = node.spawn_reading(&["top", "--once", "--interval", "200ms"]);
    drop(command.stdout.take());
    until("the command ends", || matches!(command.try_wait(), Ok(Some(status)) if status.success()));
}

/// A question of the command, as it is on the control socket.
fn ask(node: &Node, since: &Value, service: Option<&str>) -> Value {
    let mut stream = UnixStream::connect(node.path("control.sock")).unwrap();
    let question = json!({"Top": {"since": since, "service": service}});
    stream.write_all(format!("{question}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    serde_json::from_str::<Value>(&answer).unwrap()["Top"].take()
}

fn names(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().filter_map(|row| row["service"].as_str()).collect()
}

#[test]
fn an_answer_has_what_changed_and_nothing_else() {
    let node = node();
    let first = ask(&node, &Value::Null, None);
    assert_eq!((&first["is_whole"], names(&first["rows"])), (&true.into(), vec!["default/api", "default/web"]));
    let since = &first["cursor"];
    let idle = ask(&node, since, None);
    assert_eq!((&idle["is_whole"], names(&idle["rows"])), (&false.into(), Vec::new()));
    node.remove("api.yaml");
    until("api is gone", || ask(&node, since, None)["removed"] == json!(["default/api"]));
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    until("web has one endpoint", || {
        let answer = ask(&node, since, None);
        names(&answer["rows"]) == ["default/web"] && answer["rows"][0]["ready"] == 1
    });
    let detail = ask(&node, since, Some("default/web"));
    assert_eq!(detail["endpoints"][0]["endpoint"], "10.244.1.2:8080");
    assert_eq!(detail["endpoints"][0]["share"], 100.0);
    for odd in [json!({"book": 1, "reading": 1}), json!({"book": since["book"], "reading": u64::MAX})] {
        assert_eq!(ask(&node, &odd, Some("\u{1b}none"))["is_whole"], true, "another daemon's cursor: {odd}");
    }
}
