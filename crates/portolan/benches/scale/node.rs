//! A node of the lab with the real daemon, which reads manifests and a configuration file.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use portolan_testkit::{Host, Lab, topology};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");
const METRICS: &str = "127.0.0.1:10249";
/// For a start or a change of the mode, on a busy machine.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

pub(crate) struct Node {
    pub(crate) lab: Lab,
    folder: TempDir,
    daemon: Mutex<Option<Child>>,
}

impl Node {
    /// A running daemon in that mode, with these manifests. Clients on the node and in its pods are in the cgroup of the hooks.
    pub(crate) fn start(mode: &str, manifests: &[(&str, String)]) -> Self {
        let lab = Lab::with_cgroup().expect("root is needed for the lab");
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(folder.path().join("manifests")).expect("a directory can be made");
        let node = Self { lab, folder, daemon: Mutex::new(None) };
        node.open_namespaces();
        manifests.iter().for_each(|(name, text)| node.write_manifest(name, text));
        node.write_mode(mode);
        node.spawn();
        node.settle().unwrap_or_else(|error| panic!("{error}"));
        node
    }

    /// A folder with the network namespaces of the node's pods, as container runtimes have it.
    fn open_namespaces(&self) {
        fs::create_dir(self.path("namespaces")).expect("a directory can be made");
        let names = topology::HOSTS.iter().map(|host| host.name);
        for pod in names.filter(|name| topology::is_on_node(name) && *name != topology::NODE) {
            let (target, link) = (self.lab.host(pod).namespace_path(), self.path("namespaces").join(pod));
            symlink(target, link).expect("a link can be made");
        }
    }

    /// Ends the daemon by the signal, and starts another one.
    pub(crate) fn restart(&self, signal: Signal) -> Result<(), String> {
        self.end(signal);
        self.spawn();
        self.settle()
    }

    /// The CPU time of the daemon in that many seconds, after a pause.
    pub(crate) fn share_of_a_core(&self, pause: Duration, during: Duration) -> f64 {
        std::thread::sleep(pause);
        let before = self.cpu_time();
        std::thread::sleep(during);
        (self.cpu_time() - before).as_secs_f64() / during.as_secs_f64()
    }

    /// Of all threads, as the scheduler counts it, in nanoseconds.
    fn cpu_time(&self) -> Duration {
        let daemon = self.daemon.lock().unwrap_or_else(PoisonError::into_inner);
        let id = daemon.as_ref().expect("the daemon runs").id();
        let threads = fs::read_dir(format!("/proc/{id}/task")).expect("the daemon has threads").flatten();
        let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
        let of_one = |text: String| text.split_whitespace().next().and_then(|it| it.parse().ok()).unwrap_or(0);
        Duration::from_nanos(texts.map(of_one).sum())
    }

    /// The running daemon changes its mode when its configuration file changes.
    pub(crate) fn change_mode(&self, mode: &str) -> Result<(), String> {
        self.write_mode(mode);
        wait_until(&format!("mode {mode} is active"), || self.active_mode().ends_with(mode))?;
        self.settle()
    }

    pub(crate) fn write_manifest(&self, name: &str, text: &str) {
        self.replace(&format!("manifests/{name}.yaml"), text);
    }

    /// The last lines of the daemon's log, across restarts.
    pub(crate) fn last_log_lines(&self, count: usize) -> String {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }

    pub(crate) fn write_mode(&self, mode: &str) {
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: {mode}\n\
             hostnameOverride: node-a\nclusterCIDR: 10.244.0.0/16\nnodePortAddresses: [192.168.50.0/24]\n\
             conntrack: {{maxPerCore: 0}}\n"
        );
        self.replace("config.conf", &text);
    }

    /// In one step.
    fn replace(&self, name: &str, text: &str) {
        let draft = self.path(&format!("draft-{}", name.replace('/', "-")));
        fs::write(&draft, text).expect("the file can be written");
        fs::rename(draft, self.path(name)).expect("the file can be put in place");
    }

    fn spawn(&self) {
        let log = File::options().create(true).append(true).open(self.path("log")).expect("the log can be opened");
        let mut command = Command::new(PORTOLAN);
        command.arg("proxy").arg("--config").arg(self.path("config.conf"));
        command.arg("--manifests").arg(self.path("manifests")).arg("--state-directory").arg(self.path("state"));
        command.arg("--control-socket").arg(self.path("socket"));
        command.args(self.lab.cgroup().map(|cgroup| format!("--ebpf-cgroup={}", cgroup.display())));
        command.arg("--ebpf-netns-directory").arg(self.path("namespaces"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let daemon = self.host().run(|| command.spawn()).expect("the daemon starts");
        *self.daemon.lock().unwrap_or_else(PoisonError::into_inner) = Some(daemon);
    }

    fn end(&self, signal: Signal) {
        if let Some(mut daemon) = self.daemon.lock().unwrap_or_else(PoisonError::into_inner).take() {
            _ = kill_process(Pid::from_child(&daemon), signal);
            _ = daemon.wait();
        }
    }

    /// Waits until the kernel holds the daemon's plan.
    fn settle(&self) -> Result<(), String> {
        let verify = || Command::new(PORTOLAN).arg("verify").arg("--control-socket").arg(self.path("socket")).output();
        wait_until("the kernel holds the plan", || self.host().run(verify).is_ok_and(|output| output.status.success()))
    }

    fn active_mode(&self) -> String {
        let request = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(METRICS)?;
            write!(stream, "GET /proxyMode HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        };
        self.host().run(request).unwrap_or_default()
    }

    fn host(&self) -> &Host {
        self.lab.host(topology::NODE)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end(Signal::KILL);
    }
}

fn wait_until(what: &str, mut look: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + SETTLES_WITHIN;
    while !look() {
        if Instant::now() > deadline {
            return Err(format!("not within {SETTLES_WITHIN:?}: {what}"));
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Ok(())
}

/// A Service with one port, which the fields of the port describe, and its endpoints.
pub(crate) fn service(name: &str, cluster_ip: &str, port: &str, target: (&str, u16), endpoints: &[&str]) -> String {
    let (protocol, target_port) = target;
    let kind = if port.contains("nodePort") { "NodePort" } else { "ClusterIP" };
    let endpoints: String = endpoints.iter().map(|address| format!("- addresses: [{address}]\n")).collect();
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  type: {kind}\n  clusterIP: {cluster_ip}\n  \
         ports: [{{{port}, targetPort: {target_port}, protocol: {protocol}}}]\n---\napiVersion: discovery.k8s.io/v1\n\
         kind: EndpointSlice\nmetadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}\n\
         addressType: IPv4\nports: [{{name: \"\", port: {target_port}, protocol: {protocol}}}]\nendpoints:\n{endpoints}"
    )
}
