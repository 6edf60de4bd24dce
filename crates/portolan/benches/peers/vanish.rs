//! A pod is cut off and its endpoint is removed: when a client with an open connection is served again, for each proxy.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::contender::Contender;
use crate::measure::{start, stop};
use crate::network::wait_for;
use crate::stage::{Stage, endpoint_address, vip};

/// How long a client is observed. TCP gives up after a quarter of an hour.
const LASTS: Duration = Duration::from_secs(30);
const SETTING: &str = "portolan.dev/connections-of-removed-endpoints";
const SERVICE: u32 = 0;

/// Prints one line for each.
pub(crate) fn run(stage: &Stage) {
    println!("| proxy | setting | waits for a response | keeps sending | idle |\n|---|---|---|---|---|");
    let with = |setting| move |contender| (contender, setting);
    let peers = ["nftables", "iptables"].map(Contender::kube_proxy).map(with("-"));
    let own = ["nftables", "iptables", "userspace", "ebpf"].map(Contender::portolan);
    for (contender, setting) in peers.into_iter().chain(own.map(with("keep"))).chain(own.map(with("reset"))) {
        stage.annotate(SERVICE, (setting == "reset").then_some((SETTING, setting)));
        let times = measure(stage, contender);
        println!("| {} | {setting} | {} |", contender.name(), times.map(cell).join(" | "));
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Client {
    /// Has sent a request.
    Waits,
    Sends,
    Idles,
}

/// The time from the removal of the endpoint until each client has a new connection.
fn measure(stage: &Stage, contender: Contender) -> [Option<Duration>; 3] {
    let [gone, other] = [0, 1].map(|index| endpoint_address(SERVICE, index));
    stage.set_endpoints(SERVICE, &[gone]);
    let program = start(stage, contender);
    let is_ready = |wanted: Ipv4Addr| {
        let ready = stage.client_host().run(|| wait_for(vip(SERVICE), LASTS, |it| it == wanted));
        assert!(ready.is_some(), "{} does not serve", contender.name());
    };
    is_ready(gone);
    let clients = [Client::Waits, Client::Sends, Client::Idles];
    let streams = clients.map(|client| (client, stage.client_host().run(|| open(vip(SERVICE)))));
    stage.hang(gone);
    let begin = Instant::now();
    let served_again =
        |(client, stream)| stage.client_host().run(move || thread::spawn(move || use_it(client, stream)));
    let users = streams.map(served_again);
    stage.set_endpoints(SERVICE, &[other]);
    let served = users.map(|user| user.join().expect("it does not panic"));
    stage.recover();
    stop(stage, contender, program);
    served.map(|time| time.map(|time| time.duration_since(begin)))
}

fn open(service: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(service).expect("the Service answers");
    stream.read_exact(&mut [0; 4]).expect("the server sends its address");
    stream
}

/// Uses the connection until it fails, and then connects until the other endpoint answers.
fn use_it(client: Client, mut stream: TcpStream) -> Option<Instant> {
    let begin = Instant::now();
    if client == Client::Waits {
        _ = stream.write_all(b"request");
    }
    stream.set_read_timeout(Some(Duration::from_millis(10))).expect("it is not zero");
    while begin.elapsed() < LASTS {
        let is_sent = client != Client::Sends || stream.write_all(b"more").is_ok();
        let read = stream.read(&mut [0]);
        let is_open = matches!(&read, Err(error) if error.kind() == ErrorKind::WouldBlock);
        if !is_sent || !is_open {
            return wait_for(vip(SERVICE), LASTS, |address| address == endpoint_address(SERVICE, 1));
        }
    }
    None
}

fn cell(time: Option<Duration>) -> String {
    match time {
        Some(time) => format!("{} ms", time.as_millis()),
        None => format!("not within {} s", LASTS.as_secs()),
    }
}
