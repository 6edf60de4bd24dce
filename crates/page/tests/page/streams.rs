//! Streams of events: what they send, how many there are, and that they cost nothing when they are closed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use portolan_explain::{ChangeEntry, ChangesAnswer};
use portolan_page::{LiveAnswer, Overview, Question, Rates, Reply, Row};
use serde_json::Value;

use crate::client::{Server, until};

fn row(name: &str) -> Row {
    Row(name.into(), "ClusterIP".into(), "10.96.0.1".into(), "80/TCP".into(), 1, 1, "ok".into(), String::new())
}

/// Each question finds one more change.
fn live(after: Option<u64>, questions: u64) -> LiveAnswer {
    let change = |number| ChangeEntry { number, services: vec!["default/web".into()], ..ChangeEntry::default() };
    let changes = (after.unwrap_or(questions)..questions).map(|number| change(number + 1)).collect();
    let changes = ChangesAnswer { newest: questions, oldest: 1, is_complete: true, changes };
    let mut rates = Rates { reading: questions, seconds: 2.0, ..Rates::default() };
    rates.services.insert("default/web".into(), [1.5, 100.0, 3.0]);
    rates.endpoints.insert("default/web".into(), [("10.0.0.1:80 TCP".to_owned(), [1.5, 100.0, 3.0])].into());
    let overview = Overview { node: "node-a".into(), change: questions, ..Overview::default() };
    LiveAnswer { overview, changes, rows: vec![row("default/web")], rates: Some(rates), ..LiveAnswer::default() }
}

fn counting() -> (Server, Arc<AtomicU64>) {
    let questions = Arc::new(AtomicU64::new(0));
    let count = questions.clone();
    let server = Server::start(move |question| match question {
        Question::Live { after, .. } => Reply::of(&live(*after, count.fetch_add(1, Ordering::SeqCst) + 1)),
        other => Reply::of(other),
    });
    (server, questions)
}

fn open(server: &Server, target: &str) -> BufReader<TcpStream> {
    let mut stream = server.connect();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    BufReader::new(stream)
}

/// Reads until an event of that name, and returns its data.
fn event(stream: &mut BufReader<TcpStream>, name: &str) -> Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {name}");
        if line.trim() == format!("event: {name}") {
            line.clear();
            stream.read_line(&mut line).unwrap();
            return serde_json::from_str(line.trim().strip_prefix("data: ").unwrap()).unwrap();
        }
    }
}

fn status(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    _ = stream.read_line(&mut line);
    line.split(' ').nth(1).unwrap_or("closed").to_owned()
}

#[test]
fn changes_rows_and_rates_arrive() {
    let (server, _) = counting();
    let mut stream = open(&server, "/api/events?service=default/web");
    assert_eq!(event(&mut stream, "overview")["node"], "node-a");
    let changes = event(&mut stream, "changes");
    assert_eq!(changes["changes"][0]["number"], changes["newest"]);
    let services = event(&mut stream, "services");
    assert_eq!((&services["rows"][0][0], &services["reload"]), (&"default/web".into(), &false.into()));
    assert_eq!(event(&mut stream, "rates")["services"]["default/web"][0], 1.5);
    assert_eq!(event(&mut stream, "service")["endpoints"]["10.0.0.1:80 TCP"][1], 100.0);
    let mut second = open(&server, "/api/events");
    assert_eq!(event(&mut second, "overview")["node"], "node-a", "a later stream starts with an overview, too");
}

#[test]
fn the_number_of_streams_is_bounded() {
    let (server, _) = counting();
    let mut streams: Vec<_> = (0..16).map(|_| open(&server, "/api/events")).collect();
    assert!(streams.iter_mut().all(|stream| status(stream) == "200"));
    assert_eq!(status(&mut open(&server, "/api/events")), "503");
    assert_eq!(server.get("/api/overview").status(), 200, "pages are still answered");
    drop(streams);
    until("closed streams make room", || status(&mut open(&server, "/api/events")) == "200");
}

/// The task that asks ends with the last stream.
#[test]
fn without_a_stream_nothing_is_asked() {
    let (server, questions) = counting();
    assert_eq!(questions.load(Ordering::SeqCst), 0);
    let mut stream = open(&server, "/api/events");
    event(&mut stream, "overview");
    drop(stream);
    let mut last = (questions.load(Ordering::SeqCst), std::time::Instant::now());
    until("no question for five seconds", || {
        let now = questions.load(Ordering::SeqCst);
        if now != last.0 {
            last = (now, std::time::Instant::now());
        }
        last.1.elapsed() > std::time::Duration::from_secs(5)
    });
    event(&mut open(&server, "/api/events"), "overview");
}

/// More than the buffers of both sockets hold.
const LARGE: usize = 4 << 20;

#[test]
fn a_reader_that_does_not_read_is_disconnected() {
    let questions = Arc::new(AtomicU64::new(0));
    let count = questions.clone();
    let server = Server::start(move |question| match question {
        Question::Live { after, .. } => {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            let mut answer = live(*after, number);
            answer.overview.mode = "x".repeat(LARGE);
            Reply::of(&answer)
        }
        other => Reply::of(other),
    });
    let silent = open(&server, "/api/events");
    let asked = |count: u64| questions.load(Ordering::SeqCst) >= count;
    until("the first events are sent", || asked(1));
    let mut last = (0, std::time::Instant::now());
    // Without a reader that counts, the task ends.
    until("the task has ended", || {
        let now = questions.load(Ordering::SeqCst);
        if now != last.0 {
            last = (now, std::time::Instant::now());
        }
        last.1.elapsed() > std::time::Duration::from_secs(5)
    });
    drop(silent);
}
