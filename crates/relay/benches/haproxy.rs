//! The relay beside HAProxy, in one run and taking turns, on the loopback of a network namespace: throughput and CPU,
//! small exchanges, new connections; then memory with 10,000 idle connections, and one dead endpoint of three.
//!
//! Every proxy and every server is a process of its own, so that its CPU time is its own. Needs root and `haproxy`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use portolan_model::{Family, Protocol};
use portolan_relay::{Limits, Relay, Targets};
use rustix::net::{RecvFlags, recv};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const ROLE: &str = "PORTOLAN_BENCH_ROLE";
const ROUNDS: usize = 7;
const STREAMS: usize = 4;
const BYTES_PER_STREAM: usize = 768 << 20;
const EXCHANGES: usize = 20_000;
const CONNECTIONS: usize = 4_000;
const MANY: usize = 10_000;
const CLIENTS: usize = 50;

/// Descriptors of a proxy that are not ends of connections.
const OTHERS: usize = 600;

fn main() {
    // More than most services are given, and more than some may have: both ends of a connection are in one process.
    let most = Some(100_000);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    let arguments: Vec<String> = env::args().skip(1).filter(|it| !it.starts_with("--")).collect();
    match env::var(ROLE).as_deref() {
        Ok("relay") => play_relay(&arguments),
        Ok("server") => play_server(&arguments),
        Ok("holder") => play_holder(),
        _ => compare(&arguments),
    }
}

/// All parts, or those that are named: `proxies`, `idle`, `dead`.
fn compare(parts: &[String]) {
    let is_wanted = |part: &str| parts.is_empty() || parts.iter().any(|it| it == part);
    portolan_kernel::enter_new_network_namespace().expect("this needs root");
    run("ip", "link set lo up");
    if is_wanted("proxies") {
        compare_proxies();
    }
    if is_wanted("idle") {
        idle();
    }
    if is_wanted("dead") {
        one_of_three_is_dead();
    }
}

fn compare_proxies() {
    let server = Program::role("server", &["1"]);
    let proxies = [
        ("relay", relay(&server.ports)),
        ("haproxy", haproxy("copy", server.ports[0], "")),
        ("haproxy, splice-auto", haproxy("splice", server.ports[0], "option splice-auto")),
    ];
    table("throughput, 4 streams", "GiB/s", "CPU s/GiB", &proxies, upload);
    table("exchange of 100 bytes", "us", "CPU us", &proxies, exchange);
    table("connection with one exchange", "us", "CPU us", &proxies, connections);
}

/// Prints the medians of all rounds, and the range of the first figure.
fn table(title: &str, unit: &str, cost: &str, proxies: &[(&str, Program)], measure: fn(&Program) -> (f64, f64)) {
    let mut figures = vec![Vec::new(); proxies.len()];
    for _ in 0..ROUNDS {
        for (index, (_, proxy)) in proxies.iter().enumerate() {
            figures[index].push(measure(proxy));
        }
    }
    println!("\n{title}: medians of {ROUNDS} rounds");
    for ((name, _), figures) in proxies.iter().zip(figures) {
        let first = sorted(figures.iter().map(|it| it.0));
        let second = sorted(figures.iter().map(|it| it.1));
        let (low, high) = (first[0], first[ROUNDS - 1]);
        println!(
            "  {name:<22} {:>8.2} {unit} ({low:.2} to {high:.2})  {:>8.3} {cost}",
            first[ROUNDS / 2],
            second[ROUNDS / 2]
        );
    }
}

fn sorted(figures: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures
}

fn upload(proxy: &Program) -> (f64, f64) {
    let (start, cpu) = (Instant::now(), proxy.cpu());
    let port = proxy.ports[0];
    let streams: Vec<_> = (0..STREAMS).map(|_| thread::spawn(move || upload_one(port))).collect();
    streams.into_iter().for_each(|stream| stream.join().expect("an upload ends"));
    let gibibytes = (STREAMS * BYTES_PER_STREAM) as f64 / f64::from(1 << 30);
    (gibibytes / start.elapsed().as_secs_f64(), (proxy.cpu() - cpu).as_secs_f64() / gibibytes)
}

fn upload_one(port: u16) {
    let mut stream = connect(port).expect("the proxy listens");
    stream.write_all(b"S").expect("the server takes it");
    let piece = vec![7; 256 << 10];
    for _ in 0..BYTES_PER_STREAM / piece.len() {
        stream.write_all(&piece).expect("the server takes it");
    }
    stream.shutdown(Shutdown::Write).expect("it is open");
    stream.read_exact(&mut [0]).expect("the server has read all");
}

fn exchange(proxy: &Program) -> (f64, f64) {
    let mut stream = connect(proxy.ports[0]).expect("the proxy listens");
    stream.write_all(b"E").expect("the server takes it");
    let (start, cpu) = (Instant::now(), proxy.cpu());
    let mut message = [9; 100];
    for _ in 0..EXCHANGES {
        stream.write_all(&message).and_then(|()| stream.read_exact(&mut message)).expect("the server answers");
    }
    per(EXCHANGES, start.elapsed(), proxy.cpu() - cpu)
}

fn connections(proxy: &Program) -> (f64, f64) {
    let (start, cpu) = (Instant::now(), proxy.cpu());
    for _ in 0..CONNECTIONS {
        first_byte(proxy.ports[0]).expect("the server answers");
    }
    per(CONNECTIONS, start.elapsed(), proxy.cpu() - cpu)
}

fn per(count: usize, time: Duration, cpu: Duration) -> (f64, f64) {
    (time.as_secs_f64() * 1e6 / count as f64, cpu.as_secs_f64() * 1e6 / count as f64)
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects, says something, and hears something.
fn first_byte(port: u16) -> std::io::Result<TcpStream> {
    let mut stream = connect(port)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    stream.write_all(b"E!")?;
    stream.read_exact(&mut [0])?;
    Ok(stream)
}

fn idle() {
    // Lowered to the descriptor limit, where that cannot be raised.
    let descriptors = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |it| it as usize);
    // One client has a share of three quarters.
    let count = (MANY.min((descriptors - OTHERS) / 2) * 3).div_euclid(4);
    println!("\n{count} idle connections, after one exchange on each");
    for name in ["relay", "haproxy"] {
        let holder = Program::role("holder", &[]);
        let maximum = format!("maxconn {count}");
        let is_ours = name == "relay";
        let proxy = if is_ours { relay(&holder.ports) } else { haproxy("idle", holder.ports[0], &maximum) };
        let before = proxy.resident_megabytes();
        let clients: Vec<_> = (0..count).filter_map(|_| first_byte(proxy.ports[0]).ok()).collect();
        let (after, descriptors) = (proxy.resident_megabytes(), proxy.descriptors());
        println!(
            "  {name:<22} {after:>6.1} MB RSS (from {before:.1}), {descriptors} descriptors, {} open",
            clients.len()
        );
    }
}

fn one_of_three_is_dead() {
    let servers = Program::role("server", &["3"]);
    let proxy = relay(&servers.ports);
    run("nft", "add table ip dead");
    run("nft", "add chain ip dead input { type filter hook input priority 0 ; }");
    run("nft", &format!("add rule ip dead input tcp dport {} drop", servers.ports[1]));
    let (mut times, failures) = many_first_bytes(proxy.ports[0]);
    println!(
        "\none endpoint of three drops every packet: {MANY} connections of {CLIENTS} clients, connect to first byte"
    );
    describe("all", failures, &mut times.iter().map(|it| it.1).collect::<Vec<_>>());
    times.retain(|(began, _)| *began > Duration::from_secs(1));
    describe("after the first second", failures, &mut times.iter().map(|it| it.1).collect::<Vec<_>>());
}

fn describe(title: &str, failures: usize, times: &mut [Duration]) {
    times.sort();
    let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1)));
    let show = |share| at(share).copied().unwrap_or_default();
    let count = times.len();
    println!(
        "  {title:<22} {count} measured, {failures} failed, p50 {:.2?}, p99 {:.2?}, p99.9 {:.2?}, most {:.2?}",
        show(0.5),
        show(0.99),
        show(0.999),
        show(1.0)
    );
}

/// When each began and how long it took; and how many failed. Clients take pauses, so that it lasts several seconds.
fn many_first_bytes(port: u16) -> (Vec<(Duration, Duration)>, usize) {
    let start = Instant::now();
    static FAILURES: AtomicUsize = AtomicUsize::new(0);
    let one = move || {
        let mut times = Vec::new();
        for _ in 0..MANY / CLIENTS {
            let began = Instant::now();
            match first_byte(port) {
                Ok(_) => times.push((began - start, began.elapsed())),
                Err(_) => drop(FAILURES.fetch_add(1, Ordering::Relaxed)),
            }
            thread::sleep(Duration::from_millis(20));
        }
        times
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| thread::spawn(one)).collect();
    let times = clients.into_iter().flat_map(|client| client.join().expect("a client ends")).collect();
    (times, FAILURES.load(Ordering::Relaxed))
}

/// A process that is killed when it is no longer needed.
struct Program {
    child: Child,
    ports: Vec<u16>,
}

impl Program {
    /// This program in another role, which prints its ports.
    fn role(role: &str, arguments: &[&str]) -> Program {
        let mut command = Command::new(env::current_exe().expect("this program has a path"));
        let mut child = command.env(ROLE, role).args(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut line).expect("it prints its ports");
        let ports = line.split_whitespace().map(|it| it.parse().expect("it prints ports")).collect();
        Program { child, ports }
    }

    /// The time that its threads have had on a CPU.
    fn cpu(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let times = threads.flatten().filter_map(|it| fs::read_to_string(it.path().join("schedstat")).ok());
        Duration::from_nanos(times.filter_map(|it| it.split(' ').next()?.parse::<u64>().ok()).sum())
    }

    fn resident_megabytes(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("it is a number") / 1000.0
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs").count()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn relay(endpoints: &[u16]) -> Program {
    let endpoints: Vec<String> = endpoints.iter().map(u16::to_string).collect();
    Program::role("relay", &endpoints.iter().map(String::as_str).collect::<Vec<_>>())
}

fn haproxy(name: &str, server: u16, option: &str) -> Program {
    let port = free_port();
    let file = env::temp_dir().join(format!("portolan-bench-{name}-{}.cfg", std::process::id()));
    let (global, defaults) = if option.starts_with("maxconn") { (option, "") } else { ("maxconn 1000", option) };
    let text = format!(
        "global\n nbthread 1\n {global}\ndefaults\n mode tcp\n {global}\n timeout connect 5s\n timeout client 1h\n \
         timeout server 1h\n {defaults}\nlisten bench\n bind 127.0.0.1:{port}\n server one 127.0.0.1:{server}\n"
    );
    fs::write(&file, text).expect("the folder for temporary files can be written to");
    let command = Command::new("haproxy").args(["-q", "-db", "-f"]).arg(&file).spawn();
    let child = command.expect("haproxy is installed: apt-get install haproxy");
    let mut program = Program { child, ports: vec![port] };
    while connect(port).is_err() {
        assert!(program.child.try_wait().is_ok_and(|ended| ended.is_none()), "haproxy runs");
        thread::sleep(Duration::from_millis(5));
    }
    let _ = fs::remove_file(file);
    program
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it is bound").port()
}

fn play_relay(endpoints: &[String]) {
    let relay =
        Relay::start(Limits { only_redirected: false, connections: MANY, ..Limits::default() }).expect("it starts");
    let port = relay.listen("bench", Protocol::Tcp, Family::V4).expect("it listens");
    let endpoints = endpoints.iter().map(|it| SocketAddr::from(([127, 0, 0, 1], it.parse().expect("it is a port"))));
    relay.set_targets("bench", Targets { endpoints: endpoints.collect(), ..Targets::default() }).expect("it listens");
    println!("{port}");
    loop {
        thread::park();
    }
}

fn play_server(arguments: &[String]) {
    let count: usize = arguments[0].parse().expect("it is a number");
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("there is a port")).collect();
    let ports = listeners.iter().map(|it| it.local_addr().expect("it is bound").port().to_string());
    println!("{}", ports.collect::<Vec<_>>().join(" "));
    let threads: Vec<_> = listeners.into_iter().map(|it| thread::spawn(move || accept_all(&it))).collect();
    threads.into_iter().for_each(|it| drop(it.join()));
}

fn accept_all(listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        thread::spawn(move || serve(stream));
    }
}

/// By the first byte: throws all away (S), or repeats it (E).
fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 256 << 10];
    stream.read_exact(&mut buffer[..1])?;
    if buffer[0] == b'S' {
        // The kernel throws it away without copying, so that the proxy has more of the CPUs.
        while recv(&stream, buffer.as_mut_slice(), RecvFlags::TRUNC)?.1 > 0 {}
        return stream.write_all(b"k");
    }
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            length => stream.write_all(&buffer[..length])?,
        }
    }
}

/// Answers each client once and keeps the connection.
fn play_holder() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    println!("{}", listener.local_addr().expect("it is bound").port());
    let mut kept = Vec::new();
    for mut stream in listener.incoming().flatten() {
        let answered = stream.read_exact(&mut [0; 2]).and_then(|()| stream.write_all(b"!"));
        kept.extend(answered.is_ok().then_some(stream));
    }
}

fn run(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split(' ')).status().expect("the program is installed");
    assert!(status.success(), "{program} {arguments}");
}
