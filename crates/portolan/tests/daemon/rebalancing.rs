//! Long-lived connections after a Deployment has scaled.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;
use portolan_testkit::Protocol;

use crate::node::{Node, WEB, WEB_IP, web};

const PODS: [&str; 6] = ["10.244.1.2", "10.244.1.3", "10.244.1.4", "10.244.2.2", "10.244.2.3", "10.244.2.4"];
/// CONNECTIONS=600 measures: every scaling is then observed for the whole of `LONGEST`, even or not.
static MEASURED: LazyLock<Option<usize>> = LazyLock::new(|| std::env::var("CONNECTIONS").ok()?.parse().ok());
static CONNECTIONS: LazyLock<usize> = LazyLock::new(|| MEASURED.unwrap_or(240));
/// Those that send a request now and then. All others are silent.
const BUSY: usize = 48;
const REQUEST_EVERY: Duration = Duration::from_millis(300);
const LONGEST: Duration = Duration::from_secs(60);

/// A client that keeps one connection, and opens another one when it is reset.
struct Client {
    stream: TcpStream,
    pod: String,
    resets: usize,
}

impl Client {
    fn open() -> Self {
        let mut stream = TcpStream::connect(WEB).expect("the Service answers");
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.set_nodelay(true).unwrap();
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            stream.read_exact(&mut byte).expect("the server sends its line");
            line.push(byte[0]);
        }
        let pod = String::from_utf8_lossy(&line).split(' ').next().unwrap_or_default().to_owned();
        Self { stream, pod, resets: 0 }
    }

    /// Whether the request is answered.
    fn request(&mut self) -> bool {
        self.stream.set_nonblocking(false).unwrap();
        self.stream.write_all(b"request").and_then(|()| self.stream.read_exact(&mut [0; 7])).is_ok()
    }

    /// An idle client notices a reset, and connects again.
    fn look(&mut self) {
        self.stream.set_nonblocking(true).unwrap();
        match self.stream.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                *self = Self { resets: self.resets + 1, ..Self::open() };
            }
            other => panic!("an idle connection ends with {other:?}"),
        }
    }
}

/// Clients that send requests all the time, whatever the test waits for meanwhile: one that is silent for longer than the
/// annotation says is idle.
struct Busy {
    is_over: Arc<AtomicBool>,
    at_work: JoinHandle<usize>,
    pods: Vec<String>,
}

impl Busy {
    fn start(mut clients: Vec<Client>) -> Self {
        let (is_over, pods) = (Arc::new(AtomicBool::new(false)), clients.iter().map(|it| it.pod.clone()).collect());
        let until = is_over.clone();
        let work = move || {
            let mut lost = 0;
            while !until.load(Ordering::Relaxed) {
                lost += clients.iter_mut().map(|client| usize::from(!client.request())).sum::<usize>();
                thread::park_timeout(REQUEST_EVERY);
            }
            lost
        };
        Self { is_over, at_work: thread::spawn(work), pods }
    }

    /// The number of requests that were lost. A connection that is reset loses one.
    fn stop(self) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        self.at_work.join().unwrap()
    }
}

/// Connections by pod.
type Spread = BTreeMap<String, usize>;

/// A busy connection stays where it is.
fn spread(busy: &Busy, idle: &[Client]) -> Spread {
    let mut spread = Spread::new();
    let pods = busy.pods.iter().chain(idle.iter().map(|client| &client.pod));
    pods.for_each(|pod| *spread.entry(pod.clone()).or_default() += 1);
    spread
}

fn imbalance(spread: &Spread) -> f64 {
    let most = spread.values().max().copied().unwrap_or(0);
    most as f64 / (*CONNECTIONS as f64 / PODS.len() as f64)
}

/// Idle clients connect again when they are reset, until the loads are even (unless this measures) or the time is over.
fn look_until_even(busy: &Busy, idle: &mut [Client], time: Duration) {
    let begin = Instant::now();
    let is_enough = |idle: &[Client]| MEASURED.is_none() && imbalance(&spread(busy, idle)) <= 1.3;
    while begin.elapsed() < time && !is_enough(idle) {
        idle.iter_mut().for_each(Client::look);
        thread::park_timeout(REQUEST_EVERY);
    }
}

/// The numbers of the daemon are those of the clients, except for connections that were reset a moment ago.
fn assert_shown(node: &Node, spread: &Spread) {
    let load = node.query(&["services", "--load", "--output", "json"]);
    let load: serde_json::Value = serde_json::from_slice(&load.stdout).unwrap();
    let row = &load["services"][0];
    let open = row["open"].as_u64().unwrap() as usize;
    assert!(*CONNECTIONS - open <= *CONNECTIONS / 5, "{load}");
    assert!((row["imbalance"].as_f64().unwrap() - imbalance(spread)).abs() < 0.2, "{load}");
    let metrics = node.get("127.0.0.1:10249", "/metrics");
    let value = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    assert!((value("portolan_service_imbalance_ratio{") - imbalance(spread)).abs() < 0.2);
    assert_eq!(metrics.matches("\nportolan_endpoint_open_connections{").count(), PODS.len());
}

/// Scales from three pods to six. Returns the imbalance afterwards, the lost requests and the resets.
fn scale(mode: &dyn Mode, annotation: &str, time: Duration) -> (f64, usize, usize) {
    let with = |pods: &[&str]| {
        web(WEB_IP, pods).replacen("metadata: {", &format!("metadata: {{annotations: {{{annotation}}}, "), 1)
    };
    let mut node = Node::new();
    node.write("web.yaml", &with(&PODS[..3]));
    node.start_with(&[&format!("--proxy-mode={}", mode.name())]);
    PODS.iter().for_each(|pod| node.serve(&[&format!("{pod}:8080")], Protocol::Tcp));
    // Few ports, so that new connections have those of connections that were just reset.
    let ports = format!("net.ipv4.ip_local_port_range=40000 {}", 40_000 + *CONNECTIONS * 11 / 10);
    node.lab.host("client").command(&["sysctl", "-w", &ports]).unwrap();
    let mut idle: Vec<Client> = node.lab.host("client").run(|| (0..*CONNECTIONS).map(|_| Client::open()).collect());
    let busy = Busy::start(idle.drain(..BUSY).collect());
    println!("{} mode, {annotation}\n  before: {:?}", mode.name(), spread(&busy, &idle));
    node.write("web.yaml", &with(&PODS));
    node.settle();
    let begin = Instant::now();
    node.lab.host("client").run(|| look_until_even(&busy, &mut idle, time));
    let (resets, spread) = (idle.iter().map(|client| client.resets).sum(), spread(&busy, &idle));
    println!("  after {:.0?}: {spread:?}, {resets} idle connections reset", begin.elapsed());
    println!("{}", String::from_utf8_lossy(&node.query(&["services", "--load"]).stdout));
    assert_shown(&node, &spread);
    (imbalance(&spread), busy.stop(), resets)
}

/// Modes that leave all of it to the kernel's translation are alike.
fn is_different(mode: &dyn Mode) -> bool {
    mode.name() == modes::default().name() || mode.limits().relayed || mode.limits().at_connect
}

#[test]
fn idle_connections_move_to_new_endpoints_and_busy_ones_stay() {
    for mode in modes::ALL.iter().filter(|mode| mode.missing().is_none() && is_different(**mode)) {
        let (even, lost, resets) = scale(*mode, "portolan.dev/rebalance: idle=2s", LONGEST);
        assert!(even <= 1.3 && lost == 0, "{} mode: imbalance {even}, {lost} requests lost", mode.name());
        assert!(resets < *CONNECTIONS * 2, "{} mode: {resets} resets", mode.name());
    }
}

#[test]
fn without_rebalancing_connections_stay_where_they_are() {
    let time = if MEASURED.is_some() { LONGEST } else { Duration::from_secs(5) };
    let (uneven, lost, resets) = scale(modes::default(), "portolan.dev/rebalance: 'off'", time);
    assert!(uneven > 1.5 && lost == 0 && resets == 0, "imbalance {uneven}, {lost} requests lost, {resets} resets");
}
