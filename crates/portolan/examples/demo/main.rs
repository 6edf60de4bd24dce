//! The demonstration: a small private network, the real program in it, real packets. `make demo` runs it.
//!
//! On a terminal it takes about half a minute, with pauses to read; DEMO_FAST=1 skips them. It needs root, changes
//! nothing outside its own network namespaces, and leaves nothing behind.
#![forbid(unsafe_code)]

mod picture;
mod screen;
mod stage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use portolan_kernel::signal::block_termination_signals;
use portolan_testkit::{Outcome, Protocol, topology};
use screen::Screen;
use stage::Stage;

const PICTURE: &str = "
   client 203.0.113.9                  load balancer 198.51.100.10
        │                              node port     192.168.50.1:30080
   ┌────┴── node-a 192.168.50.1 ──┐       ┌── node-b 192.168.50.2 ──┐
   │  portolan proxy              ├───────┤                         │
   └──┬──────────┬──────────┬─────┘       └──┬──────────┬────────┬──┘
    pod-a1     pod-a2     pod-a3           pod-b1     pod-b2   pod-b3
    web-1      web-2      (asks)           web-3               api-1
";

const CONNECTIONS: usize = 300;
const CLIENT_POD: &str = "pod-a3";
const CLIENT_POD_ADDRESS: &str = "10.244.1.4";
const NODE_PORT: &str = "192.168.50.1:30080";
const WEB: &str = "default/web:http";
const API: &str = "default/api";

fn main() -> ExitCode {
    match play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nthe demo failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn play() -> anyhow::Result<()> {
    let signals = block_termination_signals().context("preparing for Ctrl-C")?;
    let screen = Screen::new();
    let start = Instant::now();
    let stage = Stage::set(binary()?, signals)?;
    serve(&stage)?;
    introduce(&screen, &stage, start.elapsed());
    list_services(&screen, &stage)?;
    spread_connections(&screen, &stage)?;
    if stage.mode.limits().at_connect {
        keep_the_source(&screen, &stage)?;
    }
    lose_a_pod(&screen, &stage)?;
    if stage.mode.limits().relayed {
        hang_a_pod(&screen, &stage)?;
    }
    lose_all_pods(&screen, &stage)?;
    explain_packets(&screen, &stage)?;
    repair_drift(&screen, &stage)?;
    draw_a_service(&screen, &stage)?;
    clean_up(&screen, &stage)?;
    drop(stage);
    screen.print("\nThe daemon has stopped, the lab is gone, and nothing is left behind.");
    Ok(())
}

/// The program named on the command line, or the one that was built beside this example.
fn binary() -> anyhow::Result<PathBuf> {
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("portolan"));
    let binary = std::env::args_os().nth(1).map(PathBuf::from).or_else(beside).context("finding the program")?;
    ensure!(binary.exists(), "{} does not exist: build it with cargo build, or run make demo", binary.display());
    Ok(std::path::absolute(binary)?)
}

fn serve(stage: &Stage) -> anyhow::Result<()> {
    for address in ["10.244.1.2:8080", "10.244.1.3:8080", "10.244.2.2:8080", "10.244.2.4:9090"] {
        stage.lab.serve(address.parse()?, Protocol::Tcp)?;
    }
    Ok(())
}

fn introduce(screen: &Screen, stage: &Stage, ready_after: Duration) {
    screen.heading("1  A private network");
    screen.print("Two nodes, six pods and a client: network namespaces, made for this demo. On node-a runs");
    screen.print("`portolan proxy --manifests examples/`, the real program, with this kernel's own tables.");
    screen.print(PICTURE);
    screen.success(&format!("built, started and verified in {} ms", ready_after.as_millis()));
    if let Some(line) = stage.log_line("ready:") {
        screen.print(&format!("  its log: {line}"));
    }
}

fn list_services(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("2  What the node serves");
    show(screen, stage, &["services"], 0)
}

fn spread_connections(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("3  Every frontend leads to every pod");
    let ways = [
        (CLIENT_POD, "the ClusterIP", stage.cluster_ip(WEB)?),
        ("client", "the node port", NODE_PORT.parse()?),
        ("client", "the load balancer's address", "198.51.100.10:80".parse()?),
    ];
    for (from, name, to) in ways {
        let start = Instant::now();
        let answers = stage.connect(from, to, CONNECTIONS)?;
        ensure!(answers.len() == 3, "only {:?} answered at {name}", answers.keys());
        let title = format!("{CONNECTIONS} connections from {from} to {name}, {to}, in {:.0?}", start.elapsed());
        screen.bars(&title, &answers);
    }
    Ok(())
}

/// Only a socket that is translated when it connects needs no masquerade at a node port.
fn keep_the_source(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("3b The endpoint sees the client's own address");
    let to: SocketAddr = NODE_PORT.parse()?;
    let of_pod = stage.seen_source(CLIENT_POD, to)?;
    ensure!(of_pod.to_string() == CLIENT_POD_ADDRESS, "the endpoint saw {of_pod}, not {CLIENT_POD_ADDRESS}");
    let of_client = stage.seen_source("client", to)?;
    screen.print(&format!(
        "{CLIENT_POD} connects to the node port, {to}: the endpoint sees {of_pod}, translated by a hook"
    ));
    screen.print(&format!(
        "client connects to the node port, {to}: the endpoint sees {of_client}, translated by the rules"
    ));
    screen.print("");
    show(screen, stage, &["explain", "--on-node", CLIENT_POD_ADDRESS, NODE_PORT], 0)
}

fn lose_a_pod(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("4  A pod dies");
    screen.print("web-2, which is pod-a2, is taken out of web.yaml.");
    let start = Instant::now();
    let done = stage.edited("web.yaml", |text| without_pod(text, "web-2"))?;
    screen.success(&format!("{:.0?} from the edit to the end of the change", done.duration_since(start)));
    if let Some(line) = stage.log_line("wrote") {
        screen.print(&format!("  its log: {line}"));
    }
    let to = stage.cluster_ip(WEB)?;
    let answers = stage.connect(CLIENT_POD, to, CONNECTIONS)?;
    ensure!(!answers.contains_key("pod-a2"), "pod-a2 still gets connections");
    screen.bars(&format!("{CONNECTIONS} connections from {CLIENT_POD} to {to}: none to pod-a2, none lost"), &answers);
    Ok(())
}

/// A manifest without the document of one Pod.
fn without_pod(manifest: &str, name: &str) -> String {
    let line = format!("  name: {name}\n");
    manifest.split("---\n").filter(|document| !document.contains(&line)).collect::<Vec<_>>().join("---\n")
}

/// Only a mode whose daemon opens the connections can skip a pod that hangs.
fn hang_a_pod(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("4b A pod hangs and still counts as ready");
    screen.print("web-3, which is pod-b1, drops all packets, and is still in web.yaml.");
    let hung = stage.lab.host("pod-b1");
    hung.command(&["nft", "add table inet hung"])?;
    hung.command(&["nft", "add chain inet hung input { type filter hook input priority 0; policy drop; }"])?;
    let (to, start) = (stage.cluster_ip(WEB)?, Instant::now());
    let answers = stage.connect(CLIENT_POD, to, CONNECTIONS)?;
    ensure!(!answers.contains_key("pod-b1"), "pod-b1 answered");
    let title = format!("{CONNECTIONS} connections from {CLIENT_POD} to {to} in {:.0?}: none lost", start.elapsed());
    screen.bars(&title, &answers);
    hung.command(&["nft", "delete table inet hung"])?;
    Ok(())
}

fn lose_all_pods(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("5  The last pod of a Service dies");
    let to = stage.cluster_ip(API)?;
    let answered = stage.connect(CLIENT_POD, to, 1)?;
    screen.print(&format!("{API} at {to} is answered by {:?}. Now it is scaled to zero.", answered.keys()));
    stage.edited("api.yaml", |text| without_pod(text, "api-1"))?;
    let start = Instant::now();
    let outcome = stage.connect_once(CLIENT_POD, to)?;
    ensure!(outcome == Outcome::Refused, "the connection was not refused: {outcome:?}");
    screen.success(&format!("refused after {:.1?}, without a timeout", start.elapsed()));
    Ok(())
}

fn explain_packets(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("6  Where does this packet go, and why?");
    show(screen, stage, &["explain", "203.0.113.9", "198.51.100.10:80"], 0)?;
    screen.pause(2.0);
    screen.print("");
    let refused: SocketAddr = stage.cluster_ip(API)?;
    show(screen, stage, &["explain", CLIENT_POD_ADDRESS, &refused.to_string()], 0)
}

fn repair_drift(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("7  Another process deletes our rules");
    let damage = stage.mode.damage();
    screen.command(&damage.join(" "));
    let delete = || Ok(stage.lab.host(topology::NODE).command(damage).map(drop)?);
    let changes = stage.kernel_changes(2, delete)?;
    screen.success(&format!("repaired after {:.1?}", changes[1].duration_since(changes[0])));
    stage.connect(CLIENT_POD, stage.cluster_ip(WEB)?, CONNECTIONS)?;
    screen.success(&format!("{CONNECTIONS} more connections, all answered"));
    show(screen, stage, &["verify"], 0)
}

/// What the page draws, as text.
fn draw_a_service(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("8  The picture of a Service");
    let answers = stage.connect(CLIENT_POD, stage.cluster_ip(WEB)?, CONNECTIONS)?;
    let measured: Vec<(String, usize)> = answers.iter().map(|(pod, count)| (address_of(pod), *count)).collect();
    screen.print("   clients                 frontends                               endpoints of default/web:http\n");
    picture::picture(&stage.service(WEB)?, &measured).iter().for_each(|line| screen.print(line));
    screen.print("");
    under_load(stage, || show(screen, stage, &["top", "--once"], 0))?;
    screen.print("\nThe same, live:");
    screen.print("  portolan page --manifests examples/     then open http://127.0.0.1:8480: the picture with the rules behind it");
    screen.print("  portolan top                            the table above as a full screen, beside a running daemon");
    screen.pause(2.0);
    Ok(())
}

/// While the pod keeps connecting.
fn under_load(stage: &Stage, action: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let (to, is_done) = (stage.cluster_ip(WEB)?, AtomicBool::new(false));
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                stage.connect(CLIENT_POD, to, 1)?;
            }
            Ok(())
        });
        let outcome = action();
        is_done.store(true, Ordering::Relaxed);
        load.join().expect("connecting does not panic").and(outcome)
    })
}

/// The endpoint of a pod of the lab.
fn address_of(pod: &str) -> String {
    let address = topology::by_name(pod).and_then(|host| host.ipv4.first().copied());
    address.map_or(String::new(), |address| format!("{address}:8080"))
}

fn clean_up(screen: &Screen, stage: &Stage) -> anyhow::Result<()> {
    screen.heading("9  Cleanup");
    stage.stop_daemon()?;
    screen.print("The daemon has stopped. Its rules stay, and traffic continues until it is back.");
    show(screen, stage, &["cleanup"], 0)?;
    let left = stage.lab.host(topology::NODE).command(&["nft", "list", "ruleset"])?;
    ensure!(!left.contains("KUBE-") && !left.contains("portolan"), "rules are left: {left}");
    screen.success("no rule is left in the kernel");
    Ok(())
}

fn show(screen: &Screen, stage: &Stage, arguments: &[&str], expected: i32) -> anyhow::Result<()> {
    screen.command(&format!("portolan {}", arguments.join(" ")));
    let status = stage.show(arguments)?;
    ensure!(status == expected, "portolan {} ended with {status}, not {expected}", arguments.join(" "));
    screen.pause(1.0);
    Ok(())
}
