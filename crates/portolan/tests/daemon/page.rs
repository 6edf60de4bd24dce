//! The page: in the daemon, beside it, and from manifests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use portolan_testkit::{Protocol, topology};
use serde_json::Value;

use crate::node::{Node, WEB, WEB_IP, web};
use crate::poll::until;

const PAGE: &str = "127.0.0.1:8480";
/// Much longer than an event takes.
const LONG: Duration = Duration::from_secs(60);

fn json(node: &Node, address: &str, path: &str) -> Value {
    let answer = get(node, address, path);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    serde_json::from_str(body).unwrap()
}

fn get(node: &Node, address: &str, path: &str) -> String {
    let request = || -> std::io::Result<String> {
        let mut stream = connect(address)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    };
    node.lab.host(topology::NODE).run(request).unwrap_or_else(|error| error.to_string())
}

fn connect(address: &str) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG))?;
    Ok(stream)
}

/// A daemon with the page, and an endpoint that answers.
fn serving() -> Node {
    let node = Node::serving_web(&["10.244.1.2"], &["--page-address", PAGE]);
    until("the page is served", || get(&node, PAGE, "/").starts_with("HTTP/1.1 200"));
    node
}

/// The command `portolan page`, which ends with this.
struct Page {
    process: Child,
    address: String,
}

impl Page {
    fn start(node: &Node, mut process: Child) -> Self {
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        until("the page is served", || get(node, &address, "/").starts_with("HTTP/1.1 200"));
        Self { process, address }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

#[test]
fn the_daemon_serves_the_page_if_it_is_asked_to() {
    let node = serving();
    let overview = json(&node, PAGE, "/api/overview");
    assert_eq!((&overview["source"], &overview["node"]), (&"daemon".into(), &"node-a".into()));
    assert_eq!((&overview["services"], &overview["endpoints"]), (&1.into(), &1.into()));
    assert_eq!(overview["health"]["is_healthy"], true, "{overview}");
    assert!(overview["conntrack"]["limit"].as_u64().unwrap() > 0, "{overview}");
    assert_eq!(json(&node, PAGE, "/api/services")["services"][0][0], "default/web");
    let service = json(&node, PAGE, "/api/service?name=default/web");
    assert_eq!(service["endpoints"][0]["address"], "10.244.1.2:8080");
    assert!(service["object"]["file"].as_str().unwrap().ends_with("web.yaml"), "{service}");
    let modes = json(&node, PAGE, "/api/service/modes?name=default/web");
    assert_eq!(modes["modes"].as_array().unwrap().len(), overview["modes"].as_array().unwrap().len());
    let path = json(&node, PAGE, "/api/explain?source=10.244.1.4&destination=svc/default/web");
    assert_eq!((&path["packets"][0]["fate"], &path["packets"][0]["disagreement"]), (&"forward".into(), &Value::Null));
    assert!(get(&node, PAGE, "/api/explain?source=10.244.1.4&destination=svc/default/wab").contains("did you mean"));
    assert_eq!(json(&node, PAGE, "/api/verify")["differences"].as_array().unwrap().len(), 0);
    assert_eq!(json(&node, PAGE, "/api/changes")["changes"][0]["kind"], "start");
    json(&node, PAGE, "/api/connections?service=default/web");
    let foreign = node.get(PAGE, "/api/overview");
    assert!(foreign.starts_with("HTTP/1.1 403"), "the Host header is checked: {foreign}");
}

/// Reads until an event that is meant, and returns its data.
fn event(stream: &mut BufReader<TcpStream>, name: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
    let mut line = String::new();
    loop {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {name}");
        if line.trim() == format!("event: {name}") {
            line.clear();
            stream.read_line(&mut line).unwrap();
            let data = serde_json::from_str(line.trim().strip_prefix("data: ").unwrap()).unwrap();
            if is_meant(&data) {
                return data;
            }
        }
    }
}

fn stream(node: &Node, address: &str, path: &str) -> BufReader<TcpStream> {
    let mut stream = node.lab.host(topology::NODE).run(|| connect(address)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    BufReader::new(stream)
}

#[test]
fn changes_and_rates_arrive_while_the_page_is_open() {
    let node = serving();
    let mut events = stream(&node, PAGE, "/api/events?service=default/web");
    event(&mut events, "overview", |it| it["services"] == 1);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2", "10.244.2.2"]));
    let change = event(&mut events, "changes", |_| true);
    assert_eq!(change["changes"][0]["services"][0], "default/web");
    let rows = event(&mut events, "services", |_| true);
    assert_eq!((&rows["rows"][0][0], &rows["rows"][0][5]), (&"default/web".into(), &2.into()));
    node.settle_on(&["10.244.1.2", "10.244.2.2"]);
    let is_over = AtomicBool::new(false);
    let rates = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                node.answer("pod-a3", WEB, Protocol::Tcp);
            }
        });
        let is_measured = |it: &Value| !it["services"]["default/web"].is_null();
        let rates = catch_unwind(AssertUnwindSafe(|| event(&mut events, "rates", is_measured)));
        is_over.store(true, Ordering::Relaxed);
        rates.unwrap_or_else(|panic| resume_unwind(panic))
    });
    assert!(rates["services"]["default/web"][0].as_f64().unwrap() > 0.0, "{rates}");
}

#[test]
fn the_page_runs_beside_the_daemon() {
    let mut node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    let page = Page::start(&node, node.spawn_reading(&["page", "--listen", "127.0.0.1:0"]));
    assert_eq!(json(&node, &page.address, "/api/overview")["source"], "daemon");
    assert_eq!(json(&node, &page.address, "/api/services")["services"][0][0], "default/web");
    let mut events = stream(&node, &page.address, "/api/events");
    event(&mut events, "overview", |it| it["services"] == 1);
    node.write("web.yaml", &web(WEB_IP, &["10.244.2.2"]));
    event(&mut events, "changes", |_| true);
    node.stop();
    until("the page says that the daemon is gone", || get(&node, &page.address, "/api/overview").contains(" 502 "));
    node.start();
    until("the page has the new daemon", || get(&node, &page.address, "/api/overview").contains(" 200 "));
}

#[test]
fn the_page_of_manifests_needs_no_daemon() {
    let node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    let process = node.spawn_files(&["page", "--listen", "127.0.0.1:0"], "manifests", Stdio::piped());
    let page = Page::start(&node, process);
    let overview = json(&node, &page.address, "/api/overview");
    assert_eq!((&overview["source"], &overview["services"]), (&"manifests".into(), &1.into()));
    let path = json(&node, &page.address, "/api/explain?source=10.244.1.4&destination=default/web");
    assert_eq!(path["packets"][0]["objects_from"], "the objects that would be programmed");
    assert!(get(&node, &page.address, "/api/verify").contains(" 400 "));
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2", "10.244.2.2"]));
    until("the page follows the files", || {
        let changes = json(&node, &page.address, "/api/changes?after=1");
        changes["changes"].as_array().unwrap().iter().any(|it| it["services"][0] == "default/web")
    });
}

#[test]
fn a_page_for_other_machines_needs_a_token() {
    let node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    let refused = node.query_files(&["page", "--listen", "0.0.0.0:8480"], "manifests");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("token"), "{refused:?}");
}
