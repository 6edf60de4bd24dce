//! A Windows node: wine, the state of its HNS, and manifests.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::process::{Daemon, PATIENCE, finish};

const NETWORK: &str = "11111111-2222-3333-4444-555555555555";

/// Three endpoints, the first of them on this node.
pub(crate) const OBJECTS: &str = "\
apiVersion: v1
kind: Node
metadata: {name: node-a}
spec: {podCIDRs: [10.244.1.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.244.1.2], nodeName: node-a}
- {addresses: [10.244.2.2], nodeName: node-b}
- {addresses: [10.244.2.3], nodeName: node-b}
";

pub(crate) struct Machine {
    folder: tempfile::TempDir,
}

pub(crate) fn program() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let target = own.ancestors().find(|path| path.ends_with("debug")).and_then(Path::parent).expect("a target folder");
    target.join("x86_64-pc-windows-gnu/debug/portolan.exe")
}

/// Ends wine's server, which opens the sockets of all programs in the network namespace of the one that started it.
#[cfg(feature = "cluster")]
pub(crate) fn end_wine() {
    _ = Command::new("wineserver").args(["--kill", "--wait"]).status();
}

/// As a program under wine spells it.
pub(crate) fn spelled(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

impl Machine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = Self { folder };
        for name in ["hns", "manifests"] {
            fs::create_dir(machine.path(name)).expect("a new folder");
        }
        let pod = json!({
            "ID": "aaaaaaaa-0000-0000-0000-000000000001", "Name": "pod", "HostComputeNetwork": NETWORK,
            "IpConfigurations": [{"IpAddress": "10.244.1.2", "PrefixLength": 24}], "MacAddress": "00-15-5D-01-02-03",
        });
        let network = json!({"ID": NETWORK, "Name": "cbr0", "Type": "L2Bridge"});
        machine.set_state(json!({"networks": [network], "endpoints": [pod]}));
        machine.write_objects(OBJECTS);
        machine
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write_objects(&self, text: &str) {
        fs::write(self.path("manifests/objects.yaml"), text).expect("a writable folder");
    }

    pub(crate) fn state(&self) -> Value {
        let text = fs::read(self.path("hns/state.json")).expect("a state");
        serde_json::from_slice(&text).expect("a document")
    }

    /// Programs see the old state or the new one.
    pub(crate) fn set_state(&self, state: Value) {
        fs::write(self.path("hns/state.test"), state.to_string()).expect("a writable folder");
        fs::rename(self.path("hns/state.test"), self.path("hns/state.json")).expect("a writable folder");
    }

    /// Changes fields of the state while no program runs.
    pub(crate) fn with(&self, field: &str, value: impl Into<Value>) {
        let mut state = self.state();
        state[field] = value.into();
        self.set_state(state);
    }

    /// Changes fields of the state of a running machine, with the next call of any program.
    pub(crate) fn change(&self, fields: &Value) {
        let (new, file) = (self.path("hns/change.new"), self.path("hns/change.json"));
        fs::write(&new, fields.to_string()).expect("a writable folder");
        fs::rename(new, &file).expect("a writable folder");
        self.until_so(|| !file.exists(), || "no program calls HNS".into());
    }

    /// The status and body of a page of the daemon.
    pub(crate) fn get(&self, port: u16, path: &str) -> (u16, String) {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return (0, String::new()) };
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut answer = String::new();
        let read = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        if read.is_err() {
            return (0, answer);
        }
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    pub(crate) fn manifests(&self) -> String {
        spelled(&self.path("manifests"))
    }

    /// The names of the calls since the last time this was asked.
    pub(crate) fn take_calls(&self) -> Vec<String> {
        let calls = self.calls();
        _ = fs::remove_file(self.path("hns/calls.log"));
        calls
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("hns/calls.log")).unwrap_or_default();
        text.lines().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned).collect()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.wine(&program(), arguments)
    }

    /// A program of Windows with this HNS.
    pub(crate) fn wine(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("wine");
        command.arg(program).args(arguments).env("HNS_STATE", spelled(&self.path("hns"))).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        finish(self.command(arguments)).unwrap()
    }

    /// Runs a question about these manifests, and returns what it prints.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let own = ["--manifests", &self.manifests(), "--hostname-override=node-a"];
        let output = self.run(&[arguments, &own].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}: {errors}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A question to the running daemon.
    pub(crate) fn ask_daemon(&self, arguments: &[&str]) -> Output {
        let socket = spelled(&self.path("control"));
        self.run(&[arguments, &["--control-socket", &socket]].concat())
    }

    /// A server that is no daemon, with its log beside the daemon's.
    pub(crate) fn serve(&self, arguments: &[&str]) -> Daemon {
        let mut command = self.command(arguments);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file()).expect("a writable folder");
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        Daemon::start(command)
    }

    pub(crate) fn start(&self) -> Daemon {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log_file()).expect("a writable folder");
        let mut command = self.proxy(&["--manifests", &spelled(&self.path("manifests"))]);
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        Daemon::start(command)
    }

    /// The command of a daemon with these facts.
    pub(crate) fn proxy(&self, facts: &[&str]) -> Command {
        let arguments = self.proxy_arguments(facts);
        self.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn proxy_arguments(&self, facts: &[&str]) -> Vec<String> {
        let [state, socket] = ["state", "control"].map(|name| spelled(&self.path(name)));
        let own = [
            "proxy",
            "--state-directory",
            &state,
            "--control-socket",
            &socket,
            "--hostname-override=node-a",
            "--network-name=cbr0",
            "--healthz-bind-address=127.0.0.1:10256",
            "--metrics-bind-address=127.0.0.1:10249",
        ];
        own.iter().chain(facts).map(|it| (*it).to_owned()).collect()
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.path("log")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Each load balancer as "address:port", with the addresses of its endpoints.
    pub(crate) fn balancers(&self) -> BTreeSet<String> {
        let state = self.state();
        let list = |field: &str| state[field].as_array().cloned().unwrap_or_default();
        let endpoints = list("endpoints");
        let address = |id: &Value| {
            let found = endpoints.iter().find(|it| same(&it["ID"], id));
            found.map_or("?", |it| it["IpConfigurations"][0]["IpAddress"].as_str().unwrap_or("?")).to_owned()
        };
        let describe = |balancer: &Value| {
            let ids = balancer["HostComputeEndpoints"].as_array().cloned().unwrap_or_default();
            let mut targets: Vec<String> = ids.iter().map(address).collect();
            targets.sort();
            let (vip, mapping) = (balancer["FrontendVIPs"][0].as_str().unwrap_or("*"), &balancer["PortMappings"][0]);
            format!("{vip}:{} -> {}", mapping["ExternalPort"], targets.join(" "))
        };
        list("balancers").iter().map(describe).collect()
    }

    pub(crate) fn remote_endpoints(&self) -> usize {
        let state = self.state();
        state["endpoints"].as_array().map_or(0, |list| list.iter().filter(|it| it["Flags"] == 1).count())
    }

    /// Waits until these are the load balancers.
    pub(crate) fn until(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|it| (*it).to_owned()).collect();
        self.until_so(|| self.balancers() == expected, || format!("{:?} instead of {expected:?}", self.balancers()));
    }

    pub(crate) fn until_so(&self, is_so: impl Fn() -> bool, instead: impl Fn() -> String) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < PATIENCE, "{}\n{}", instead(), self.log());
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

fn same(one: &Value, other: &Value) -> bool {
    one.as_str().zip(other.as_str()).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
}
