//! The lab's node with the real program on it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use portolan_kernel::nftables::Nftables;
use portolan_testkit::{Lab, LongConnection, Outcome, Protocol, Source, topology};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::poll::until;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub(crate) struct Node {
    pub(crate) lab: Arc<Lab>,
    folder: TempDir,
    daemon: Option<Child>,
    /// Where the daemon looks for programs first.
    pub(crate) programs: Option<PathBuf>,
    control_socket: PathBuf,
}

impl Node {
    /// A lab without a daemon, and with an empty folder of manifests.
    pub(crate) fn new() -> Self {
        let lab = Lab::with_cgroup().unwrap_or_else(|error| panic!("{error}"));
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("manifests")).unwrap();
        let control_socket = folder.path().join("control.sock");
        Self { lab: Arc::new(lab), folder, daemon: None, programs: None, control_socket }
    }

    /// The same with these manifests and a running daemon.
    pub(crate) fn running(manifests: &[(&str, &str)]) -> Self {
        let mut node = Self::new();
        manifests.iter().for_each(|(name, text)| node.write(name, text));
        node.start();
        node
    }

    /// With the Service `web`, two endpoints that answer, and a running daemon with these flags.
    pub(crate) fn serving_web(endpoints: &[&str], flags: &[&str]) -> Self {
        let mut node = Self::new();
        node.write("web.yaml", &web(WEB_IP, endpoints));
        node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
        node.start_with(flags);
        node
    }

    /// Starts the daemon and waits until the kernel matches the plan.
    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    /// The same with more flags.
    pub(crate) fn start_with(&mut self, arguments: &[&str]) {
        self.daemon = Some(self.spawn(arguments));
        self.settle();
    }

    /// A new process replaces the running one, which is returned.
    pub(crate) fn replace_with(&mut self, arguments: &[&str]) -> Child {
        let arguments = [arguments, &["--replace"]].concat();
        let after = self.spawn(&arguments);
        let before = self.daemon.replace(after).expect("the daemon runs");
        until("the new process has begun", || self.log().matches("ready: ").count() >= 2);
        self.settle();
        before
    }

    /// The same after a line of shell, with its own mounts. The log tells when it is ready.
    pub(crate) fn start_after(&mut self, shell: &str, arguments: &[&str]) {
        let line = format!("{shell} && exec \"$0\" \"$@\"");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &line, env!("CARGO_BIN_EXE_portolan"), "proxy", "-v", "2"]);
        command.args(arguments);
        self.add_facts(&mut command, "manifests");
        self.daemon = Some(self.begin(command));
        until("the daemon is ready", || self.log().contains("ready: "));
    }

    /// The same without these capabilities, such as `-bpf,-sys_admin`.
    pub(crate) fn start_without(&mut self, capabilities: &str, arguments: &[&str]) {
        self.daemon = Some(self.spawn_without(capabilities, arguments));
        self.settle();
    }

    pub(crate) fn spawn_without(&self, capabilities: &str, arguments: &[&str]) -> Child {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set={capabilities}"));
        command.args([env!("CARGO_BIN_EXE_portolan"), "proxy", "-v", "2"]).args(arguments);
        self.add_facts(&mut command, "manifests");
        self.begin(command)
    }

    /// Starts another daemon beside that of this node.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(&["proxy", "-v", "2"]);
        command.args(arguments);
        self.add_facts(&mut command, "manifests");
        self.begin(command)
    }

    /// Starts a command without manifests.
    pub(crate) fn spawn_plainly(&self, arguments: &[&str]) -> Child {
        self.begin(self.command(arguments))
    }

    /// The same, as the daemon of this node.
    pub(crate) fn start_plainly(&mut self, arguments: &[&str]) {
        self.daemon = Some(self.spawn_plainly(arguments));
        self.settle();
    }

    /// The resident memory of the daemon.
    pub(crate) fn resident_bytes(&self) -> usize {
        self.memory("VmRSS:")
    }

    /// The same without the pages of the program file.
    pub(crate) fn own_bytes(&self) -> usize {
        self.memory("RssAnon:")
    }

    fn memory(&self, kind: &str) -> usize {
        let id = self.daemon.as_ref().expect("the daemon runs").id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
    }

    fn begin(&self, mut command: Command) -> Child {
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        command.arg("--control-socket").arg(&self.control_socket);
        // Hooks at the root would concern every process of this machine.
        let has = |start: &str| command.get_args().any(|word| word.to_string_lossy().starts_with(start));
        if has("proxy") && !has("--ebpf-cgroup") {
            command.args(self.lab.cgroup().map(|cgroup| format!("--ebpf-cgroup={}", cgroup.display())));
        }
        if let Some(programs) = &self.programs {
            let rest = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{rest}", programs.display()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.lab.host(topology::NODE).run(|| command.spawn()).unwrap()
    }

    pub(crate) fn settle(&self) -> Duration {
        until("the kernel matches the daemon's plan", || self.query(&["verify"]).status.success())
    }

    /// Waits until the kernel sends connections to exactly these endpoints.
    pub(crate) fn settle_on(&self, endpoints: &[&str]) -> Duration {
        until("the kernel has just these endpoints", || {
            let map = self.nft("list map ip portolan endpoints");
            map.matches(" . 8080").count() == endpoints.len()
                && endpoints.iter().all(|it| map.contains(&format!(": {it} .")))
        })
    }

    /// The response to a GET on the node, head and body.
    pub(crate) fn get(&self, address: &str, path: &str) -> String {
        let request = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(address)?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        };
        self.lab.host(topology::NODE).run(request).unwrap_or_else(|error| error.to_string())
    }

    /// The names of the daemon's threads.
    pub(crate) fn threads(&self) -> Vec<String> {
        let id = self.daemon.as_ref().expect("the daemon runs").id();
        let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap().filter_map(Result::ok);
        let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
        names.map(|name| name.trim().to_owned()).collect()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.daemon.as_mut().map(Child::try_wait), Some(Ok(None)))
    }

    /// The process ID of the daemon.
    pub(crate) fn process(&self) -> u32 {
        self.daemon.as_ref().expect("the daemon runs").id()
    }

    /// Sends a signal to the daemon, such as SIGSTOP and SIGCONT.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.daemon.as_ref().expect("the daemon runs")), signal).unwrap();
    }

    /// SIGTERM; returns the exit status.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.end(Signal::TERM)
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.end(Signal::KILL);
    }

    fn end(&mut self, signal: Signal) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("the daemon runs");
        kill_process(Pid::from_child(&daemon), signal).unwrap();
        daemon.wait().unwrap()
    }

    /// The log of the daemon, across restarts.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a manifest in one step.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let draft = self.path("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.path("manifests").join(name)).unwrap();
    }

    pub(crate) fn control_socket(&self) -> String {
        self.control_socket.display().to_string()
    }

    /// The daemon's control socket is in this folder from now on.
    pub(crate) fn place_control_socket(&mut self, folder: &str) {
        self.control_socket = self.path(folder).join("control.sock");
    }

    pub(crate) fn remove(&self, name: &str) {
        fs::remove_file(self.path("manifests").join(name)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command.args(arguments);
        command
    }

    fn add_facts<'a>(&self, command: &'a mut Command, manifests: impl AsRef<Path>) -> &'a mut Command {
        command.args(["--hostname-override", "node-a", "--cluster-cidr", "10.244.0.0/16"]);
        command.arg("--state-directory").arg(self.path("state"));
        command.arg("--manifests").arg(self.folder.path().join(manifests))
    }

    /// Runs a command without daemon and manifests.
    pub(crate) fn plainly(&self, arguments: &[&str]) -> Output {
        self.run(self.command(arguments))
    }

    /// Runs a command that queries the daemon.
    pub(crate) fn query(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        command.arg("--control-socket").arg(&self.control_socket);
        self.run(command)
    }

    /// Starts a command that queries the daemon, and leaves its output to the caller.
    pub(crate) fn spawn_reading(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.arg("--control-socket").arg(&self.control_socket).stdout(Stdio::piped());
        self.lab.host(topology::NODE).run(|| command.spawn()).unwrap()
    }

    /// Runs a command with manifests, without the daemon.
    pub(crate) fn query_files(&self, arguments: &[&str], manifests: impl AsRef<Path>) -> Output {
        let mut command = self.command(arguments);
        self.add_facts(&mut command, manifests);
        self.run(command)
    }

    /// Starts a command with manifests, without the daemon.
    pub(crate) fn spawn_files(&self, arguments: &[&str], manifests: impl AsRef<Path>, output: Stdio) -> Child {
        let mut command = self.command(arguments);
        self.add_facts(&mut command, manifests).stdout(output);
        self.lab.host(topology::NODE).run(|| command.spawn()).unwrap()
    }

    fn run(&self, mut command: Command) -> Output {
        self.lab.host(topology::NODE).run(|| command.output()).unwrap()
    }

    pub(crate) fn nft(&self, words: &str) -> String {
        let words: Vec<&str> = std::iter::once("nft").chain(words.split(' ')).collect();
        self.lab.host(topology::NODE).command(&words).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The nf_tables generation.
    pub(crate) fn generation(&self) -> u32 {
        self.lab.host(topology::NODE).run(|| Nftables::open().unwrap().generation().unwrap())
    }

    pub(crate) fn serve(&self, addresses: &[&str], protocol: Protocol) {
        for text in addresses {
            self.lab.serve(address(text), protocol).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// One connection: the host that answered, `refused` or `silent`.
    pub(crate) fn answer(&self, from: &str, to: &str, protocol: Protocol) -> String {
        self.answer_within(from, to, protocol, ANSWER_WITHIN)
    }

    pub(crate) fn answer_within(&self, from: &str, to: &str, protocol: Protocol, timeout: Duration) -> String {
        match self.lab.probe(&source(from), address(to), protocol, timeout) {
            Outcome::Answered { by, .. } => by,
            Outcome::Refused => "refused".into(),
            Outcome::TimedOut => "silent".into(),
            Outcome::Failed(reason) => reason,
        }
    }

    /// The hosts that answer, sorted, each once.
    pub(crate) fn answers(&self, from: &str, to: &str) -> Vec<String> {
        let mut answers: Vec<String> = (0..40).map(|_| self.answer(from, to, Protocol::Tcp)).collect();
        answers.sort();
        answers.dedup();
        answers
    }

    pub(crate) fn connect(&self, from: &str, to: &str, protocol: Protocol) -> LongConnection {
        self.lab.open_connection(&source(from), address(to), protocol, ANSWER_WITHIN).unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            _ = daemon.kill();
            _ = daemon.wait();
        }
        if std::thread::panicking() {
            eprintln!("the daemon's log:\n{}", fs::read_to_string(self.path("log")).unwrap_or_default());
        }
    }
}

fn source(name: &str) -> Source {
    Source::parse(name, address("0.0.0.0:0").ip()).unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A Service with a ClusterIP, one port, further fields of its spec, and its endpoints.
pub(crate) fn service(name: &str, cluster_ip: &str, spec: &str, endpoints: &[&str]) -> String {
    service_of(name, cluster_ip, "TCP", spec, endpoints)
}

pub(crate) fn udp_service(name: &str, cluster_ip: &str, endpoints: &[&str]) -> String {
    service_of(name, cluster_ip, "UDP", "type: ClusterIP", endpoints)
}

fn service_of(name: &str, cluster_ip: &str, protocol: &str, spec: &str, endpoints: &[&str]) -> String {
    let endpoints: String = endpoints.iter().map(|address| format!("- addresses: [{address}]\n")).collect();
    format!(
        "apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  clusterIP: {cluster_ip}
  ports: [{{port: 80, targetPort: 8080, protocol: {protocol}}}]
  {spec}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: \"\", port: 8080, protocol: {protocol}}}]
endpoints:
{endpoints}"
    )
}

/// A Service named `web`.
pub(crate) fn web(cluster_ip: &str, endpoints: &[&str]) -> String {
    service("web", cluster_ip, "type: ClusterIP", endpoints)
}

pub(crate) const WEB: &str = "10.96.0.80:80";
pub(crate) const WEB_IP: &str = "10.96.0.80";
