//! Connections at full speed while endpoints come and go and the daemon is killed and started again.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use portolan_testkit::{Lab, Protocol, topology};

use crate::table;

const CONNECTIONS: usize = 100_000;
const SERVICES: usize = 50;
const KILLS: usize = 5;
const CLIENTS: [&str; 2] = ["pod-a1", "pod-a1"];
/// Every pod but the client serves, on a port for each Service.
const PODS: [[u8; 4]; 5] = [[10, 244, 1, 3], [10, 244, 1, 4], [10, 244, 2, 2], [10, 244, 2, 3], [10, 244, 2, 4]];
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Count {
    done: AtomicUsize,
    failed: AtomicUsize,
    slow: AtomicUsize,
    is_over: AtomicBool,
}

pub(crate) fn run() {
    let lab = Lab::new().expect("root is needed for the lab");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let manifests = directory.path().join("manifests");
    std::fs::create_dir(&manifests).expect("a directory can be made");
    for service in 0..SERVICES {
        for pod in PODS {
            let address = SocketAddr::from((Ipv4Addr::from(pod), 9000 + service as u16));
            lab.serve(address, Protocol::Tcp).expect("the pod serves");
        }
        write_service(&manifests, service, None);
    }
    let mut daemon = start(&lab, directory.path());
    wait_until_served(&lab);
    let count = Count::default();
    let begin = Instant::now();
    let mut churned = 0;
    std::thread::scope(|scope| {
        for client in CLIENTS {
            scope.spawn(|| lab.host(client).run(|| connect_at_full_speed(&count)));
        }
        churned = disturb(&lab, directory.path(), &mut daemon, &count);
    });
    _ = daemon.kill();
    _ = daemon.wait();
    show(&count, churned, begin.elapsed());
}

/// One endpoint in a hundred is replaced each second; the daemon is killed each time another sixth of the work is done.
fn disturb(lab: &Lab, directory: &Path, daemon: &mut Child, count: &Count) -> usize {
    let (mut kills, mut churned) = (0, 0);
    let begin = Instant::now();
    while !count.is_over.load(Ordering::Relaxed) {
        let per_second = (SERVICES * PODS.len()) as f64 / 100.0;
        if begin.elapsed().as_secs_f64() * per_second > churned as f64 {
            let gone = (churned / SERVICES + churned) % PODS.len();
            write_service(&directory.join("manifests"), churned % SERVICES, Some(gone));
            churned += 1;
        }
        if kills < KILLS && count.done.load(Ordering::Relaxed) > CONNECTIONS * (kills + 1) / (KILLS + 1) {
            daemon.kill().expect("the daemon runs");
            _ = daemon.wait();
            *daemon = start(lab, directory);
            kills += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    churned
}

fn connect_at_full_speed(count: &Count) {
    let mut number = 0;
    while count.done.fetch_add(1, Ordering::Relaxed) < CONNECTIONS {
        number += 1;
        let vip = SocketAddr::from((Ipv4Addr::new(10, 96, 1, (number % SERVICES) as u8 + 1), 80));
        let start = Instant::now();
        if exchange(vip).is_err() {
            count.failed.fetch_add(1, Ordering::Relaxed);
        }
        if start.elapsed() > Duration::from_millis(500) {
            count.slow.fetch_add(1, Ordering::Relaxed);
        }
    }
    count.is_over.store(true, Ordering::Relaxed);
}

/// A connection counts only when the server's line has arrived.
fn exchange(address: SocketAddr) -> std::io::Result<()> {
    let mut connection = TcpStream::connect_timeout(&address, TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    let mut word = [0; 16];
    connection.read_exact(&mut word)
}

fn write_service(manifests: &Path, number: usize, without: Option<usize>) {
    let endpoints: String = PODS
        .iter()
        .enumerate()
        .filter(|(index, _)| Some(*index) != without)
        .map(|(_, pod)| format!("- addresses: [{}]\n", Ipv4Addr::from(*pod)))
        .collect();
    let text = format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: s{number}}}\nspec:\n  clusterIP: 10.96.1.{}\n  ports: [{{port: \
         80}}]\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: s{number}, labels: \
         {{kubernetes.io/service-name: s{number}}}}}\naddressType: IPv4\nports: [{{name: \"\", port: {}}}]\nendpoints:\n{endpoints}",
        number + 1,
        9000 + number
    );
    let path = manifests.join(format!("s{number}.yaml"));
    let new: PathBuf = manifests.join(format!(".s{number}"));
    std::fs::write(&new, text).expect("the manifest can be written");
    std::fs::rename(&new, path).expect("the manifest can be put in place");
}

fn start(lab: &Lab, directory: &Path) -> Child {
    let at = |name: &str| directory.join(name).display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command.args(["proxy", "--hostname-override", "node-a", "--cluster-cidr", "10.244.0.0/16"]);
    command.args([
        "--manifests",
        &at("manifests"),
        "--state-directory",
        &at("state"),
        "--control-socket",
        &at("socket"),
    ]);
    command.stderr(Stdio::null());
    lab.host(topology::NODE).run(|| command.spawn()).expect("the daemon starts")
}

fn wait_until_served(lab: &Lab) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let vip = SocketAddr::from(([10, 96, 1, SERVICES as u8], 80));
    while lab.host("pod-a1").run(|| exchange(vip)).is_err() {
        assert!(Instant::now() < deadline, "the Services are not served");
    }
}

fn show(count: &Count, churned: usize, elapsed: Duration) {
    let number = |it: &AtomicUsize| it.load(Ordering::Relaxed).to_string();
    let row = vec![
        CONNECTIONS.to_string(),
        format!("{:.0}/s", CONNECTIONS as f64 / elapsed.as_secs_f64()),
        churned.to_string(),
        KILLS.to_string(),
        number(&count.failed),
        number(&count.slow),
    ];
    table::print(
        "Connections at full speed while endpoints churn (1 % a second) and the daemon is killed (-9) and restarted",
        &["connections", "rate", "endpoints changed", "kills", "failed", "slower than 500 ms"],
        &[row],
    );
}
