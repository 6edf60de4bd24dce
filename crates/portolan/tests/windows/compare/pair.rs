//! `kube-proxy.exe` and `portolan.exe` side by side: one API server, one node, and an HNS for each.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_testkit::cluster::{ControlPlane, Identity, Program, kubernetes_program};
use portolan_testkit::{Lab, topology};
use serde_json::{Value, json};

use crate::machine::{Machine, end_wine, spelled};

/// The largest bench programs thousands of objects, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
pub(crate) const KUBE_PROXY: &str = "kube-proxy.exe";
const NETWORK: &str = "11111111-2222-3333-4444-555555555555";

/// The network of the pods, and the flags of both proxies that depend on it.
pub(crate) struct Place {
    pub(crate) network: Value,
    pub(crate) flags: &'static [&'static str],
    /// An overlay has one address family.
    pub(crate) families: usize,
}

/// What both run on.
pub(crate) struct Pair {
    pub(crate) server: ControlPlane,
    pub(crate) kube_proxy: Side,
    pub(crate) portolan: Side,
    pub(crate) families: usize,
    lab: Arc<Lab>,
}

/// A proxy and its HNS.
pub(crate) struct Side {
    pub(crate) machine: Machine,
    pub(crate) name: &'static str,
    command: Vec<String>,
    program: PathBuf,
    daemon: Option<Program>,
}

impl Pair {
    pub(crate) fn new(place: &Place, local: &[String]) -> Self {
        end_wine();
        let lab = Arc::new(Lab::new().expect("a lab"));
        let server = ControlPlane::start(&lab).expect("a control plane");
        let kubeconfig = kubeconfig_for_windows(&server);
        let kube_proxy = Side::kube_proxy(place, local, &kubeconfig);
        let portolan = Side::portolan(place, local, &kubeconfig);
        Self { server, kube_proxy, portolan, families: place.families, lab }
    }

    /// Waits until the condition holds for both. A proxy that has ended is started again: kube-proxy ends itself when the addresses
    /// of its Node change.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&Value) -> bool) {
        let start = Instant::now();
        loop {
            self.keep_running();
            if self.sides().iter().all(|side| holds(&side.machine.state())) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{what}:\n{}", self.logs());
            std::thread::park_timeout(BETWEEN_LOOKS);
        }
    }

    /// Whether the condition comes to hold.
    pub(crate) fn comes_true(&mut self, within: Duration, holds: impl Fn(&Self) -> bool) -> bool {
        let start = Instant::now();
        while !holds(self) {
            if start.elapsed() > within {
                return false;
            }
            self.keep_running();
            std::thread::park_timeout(BETWEEN_LOOKS);
        }
        true
    }

    fn sides(&self) -> [&Side; 2] {
        [&self.kube_proxy, &self.portolan]
    }

    fn keep_running(&mut self) {
        let host = self.lab.host(topology::NODE);
        for side in [&mut self.kube_proxy, &mut self.portolan] {
            if side.daemon.as_mut().is_none_or(Program::has_ended) {
                let log = side.machine.log_file();
                side.daemon = Some(Program::start(host, side.name, side.command(), &log).expect("wine"));
            }
        }
    }

    pub(crate) fn logs(&self) -> String {
        let last = |text: &str| {
            text.lines().rev().take(30).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
        };
        self.sides().map(|side| format!("{}:\n{}\n", side.name, last(&side.machine.log()))).concat()
    }
}

impl Side {
    fn new(name: &'static str, program: PathBuf, command: Vec<String>, machine: Machine) -> Self {
        Self { machine, name, command, program, daemon: None }
    }

    fn portolan(place: &Place, local: &[String], kubeconfig: &str) -> Self {
        let machine = machine(place, local);
        let mut command = machine.proxy_arguments(&["--kubeconfig", kubeconfig]);
        command.extend(place.flags.iter().map(|it| (*it).to_owned()));
        Self::new("portolan.exe", crate::machine::program(), command, machine)
    }

    /// The port of health checks is part of some objects, and so it is the same for both.
    ///
    /// With short times between two syncs, so that the test is quick. What it writes does not depend on them. A sync ends with an
    /// error when an object that it has listed is deleted before it is read, also by the sync of the other address family, and what it
    /// should have done waits for the next one.
    fn kube_proxy(place: &Place, local: &[String], kubeconfig: &str) -> Self {
        let own = [
            "--hostname-override=node-a",
            "--network-name=cbr0",
            "--healthz-bind-address=127.0.0.2:10256",
            "--metrics-bind-address=127.0.0.2:10249",
            "--iptables-min-sync-period=10ms",
            "--iptables-sync-period=1s",
            "--v=2",
            "--kubeconfig",
            kubeconfig,
        ];
        let command = own.iter().chain(place.flags).map(|it| (*it).to_owned()).collect();
        let program = kubernetes_program(KUBE_PROXY).expect("tests/cluster/build kube-proxy.exe");
        Self::new(KUBE_PROXY, program, command, machine(place, local))
    }

    fn command(&self) -> Command {
        let words: Vec<&str> = self.command.iter().map(String::as_str).collect();
        self.machine.wine(&self.program, &words)
    }
}

/// A node whose CNI plugin has made endpoints for these pods, and one that leads to the node itself.
fn machine(place: &Place, local: &[String]) -> Machine {
    let machine = Machine::new();
    let mut network = place.network.clone();
    (network["ID"], network["Name"]) = (NETWORK.into(), "cbr0".into());
    let pods = local.iter().enumerate().map(|(number, address)| endpoint(number, &format!("pod-{number}"), address));
    let endpoints: Vec<Value> = pods.chain([endpoint(999, "cbr0", "10.244.1.1")]).collect();
    machine.set_state(json!({"networks": [network], "endpoints": endpoints}));
    machine
}

fn endpoint(number: usize, name: &str, address: &str) -> Value {
    json!({
        "ID": format!("aaaaaaaa-0000-0000-0000-{number:012}"), "Name": name, "HostComputeNetwork": NETWORK,
        "IpConfigurations": [{"IpAddress": address, "PrefixLength": 24}], "MacAddress": "00-15-5D-01-02-03",
    })
}

/// Go takes a path without a drive for a relative one.
fn kubeconfig_for_windows(server: &ControlPlane) -> String {
    let text = fs::read_to_string(server.kubeconfig(Identity::KubeProxy)).expect("a kubeconfig");
    let mut config: Value = serde_json::from_str(&text).expect("a document");
    let authority = &mut config["clusters"][0]["cluster"]["certificate-authority"];
    *authority = spelled(authority.as_str().expect("a path").as_ref()).into();
    let path = server.folder().join("windows.kubeconfig");
    fs::write(&path, config.to_string()).expect("a writable folder");
    spelled(&path)
}
