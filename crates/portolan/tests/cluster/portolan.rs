//! Portolan on the lab's node, with the permissions that kube-proxy has in a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use portolan_kernel::nftables::Nftables;
use portolan_testkit::cluster::{Identity, Program, SERVICE_RANGES};
use portolan_testkit::topology;
use serde_json::Value;

use crate::cluster::Cluster;
use crate::poll::{comes_true, until};

/// The kinds of objects in a dump of the cluster.
const KINDS: [(&str, &str, &str); 3] = [
    ("/api/v1/nodes", "v1", "Node"),
    ("/api/v1/services", "v1", "Service"),
    ("/apis/discovery.k8s.io/v1/endpointslices", "discovery.k8s.io/v1", "EndpointSlice"),
];

/// Traffic flags, unless a test sets its own.
pub(crate) const TRAFFIC: [&str; 2] = ["--cluster-cidr", "10.244.0.0/16"];

impl Cluster {
    /// The program as in a DaemonSet; the test adds its own flags.
    pub(crate) fn portolan_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command.args(["proxy", "-v", "2", "--proxy-mode", "nftables", "--hostname-override", "node-a"]).args(arguments);
        command.arg("--kubeconfig").arg(self.control_plane.kubeconfig(Identity::KubeProxy));
        command.arg("--control-socket").arg(self.socket());
        command
    }

    /// Starts the daemon and waits until the kernel matches the objects of the API server.
    pub(crate) fn start_portolan(&self) -> Program {
        let daemon = self.start_program("portolan", self.portolan_command(&TRAFFIC));
        until("the daemon answers, and the kernel matches the plan", || self.query(&["verify"]).status.success());
        daemon
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("control.sock")
    }

    /// Runs a command that queries the daemon.
    pub(crate) fn query(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
        command.args(arguments).arg("--control-socket").arg(self.socket());
        self.run(command)
    }

    /// Waits until the kernel holds exactly what standalone mode would program for the current objects of the API
    /// server. Independent of the daemon.
    pub(crate) fn until_in_force(&self) {
        let in_force = self.comes_to_hold(&self.dump(), &TRAFFIC);
        assert!(in_force.is_ok(), "the kernel does not match the API server's objects: {in_force:?}");
    }

    /// Waits until the kernel holds exactly what standalone mode would program for these manifests; the error is the
    /// difference.
    pub(crate) fn comes_to_hold(&self, manifests: &str, traffic: &[&str]) -> Result<(), String> {
        let file = self.path("expected.yaml");
        fs::write(&file, manifests).unwrap();
        let mut printed = String::new();
        let holds = comes_true(|| {
            let output = self.run(verify(&file, traffic));
            printed = text(&output);
            output.status.success()
        });
        if holds { Ok(()) } else { Err(printed) }
    }

    /// All objects that a proxy reads, as manifests.
    fn dump(&self) -> String {
        let lists = KINDS.map(|(path, version, kind)| (self.control_plane.client().get(path).unwrap(), version, kind));
        let documents = lists.iter().flat_map(|(list, version, kind)| {
            list["items"].as_array().unwrap().iter().map(|item| document(item.clone(), version, kind))
        });
        documents.collect()
    }

    /// The nf_tables generation of the node.
    pub(crate) fn generation(&self) -> u32 {
        self.lab.host(topology::NODE).run(|| Nftables::open().unwrap().generation().unwrap())
    }
}

/// The items of a list have no apiVersion and kind.
fn document(mut item: Value, version: &str, kind: &str) -> String {
    item["apiVersion"] = version.into();
    item["kind"] = kind.into();
    format!("---\n{item}\n")
}

/// Compares the kernel with these manifests, without the daemon.
fn verify(manifests: &Path, traffic: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portolan"));
    command.arg("verify").arg("--manifests").arg(manifests).args(["--hostname-override", "node-a"]);
    // Addresses that a daemon of this machine has allocated do not count.
    command.arg("--state-directory").arg(manifests.with_file_name("state"));
    command.args(["--service-cluster-ip-range", SERVICE_RANGES]).args(traffic);
    command
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}
