//! The lab with a control plane, its nodes registered, and a proxy on the node under test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use portolan_testkit::cluster::{ControlPlane, Identity, Program, kubernetes_program, node, pods};
use portolan_testkit::{Lab, LongConnection, Outcome, Protocol, Source, topology};
use serde_json::Value;

use crate::objects::{WEB_IP, service, slice};
use crate::poll::until;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const PODS: [&str; 6] = ["10.244.1.2", "10.244.1.3", "10.244.1.4", "10.244.2.2", "10.244.2.3", "10.244.2.4"];

pub(crate) struct Cluster {
    pub(crate) control_plane: ControlPlane,
    pub(crate) lab: Arc<Lab>,
}

impl Cluster {
    /// Without nodes, pods and servers.
    pub(crate) fn empty() -> Self {
        let lab = Arc::new(Lab::new().unwrap_or_else(|error| panic!("{error}")));
        let control_plane = ControlPlane::start(&lab).unwrap_or_else(|error| panic!("{error}"));
        Self { control_plane, lab }
    }

    /// The lab's nodes and pods are registered, and every pod serves port 8080.
    pub(crate) fn start() -> Self {
        let cluster = Self::empty();
        for object in ["node-a", "node-b"].map(node).iter().chain(&pods()) {
            cluster.create(object);
            cluster.control_plane.client().set_status(object).unwrap();
        }
        for pod in PODS {
            cluster.lab.serve(address(&format!("{pod}:8080")), Protocol::Tcp).unwrap();
        }
        cluster
    }

    pub(crate) fn create(&self, object: &Value) {
        self.control_plane.client().create(object).unwrap_or_else(|error| panic!("{error}"));
    }

    pub(crate) fn patch(&self, path: &str, patch: &Value) {
        self.control_plane.client().patch(path, patch).unwrap_or_else(|error| panic!("{error}"));
    }

    pub(crate) fn delete(&self, path: &str) {
        self.control_plane.client().delete(path).unwrap_or_else(|error| panic!("{error}"));
    }

    /// The Service `web` with these endpoints.
    pub(crate) fn create_web(&self, endpoints: &[&str]) {
        self.create(&service("web", WEB_IP));
        self.create(&slice("web", endpoints));
    }

    /// The real kube-proxy, with the rights that it has in a cluster.
    pub(crate) fn start_kube_proxy(&self, mode: &str) -> Program {
        let mut command = Command::new(kubernetes_program("kube-proxy").unwrap());
        command.arg(format!("--proxy-mode={mode}")).arg("--hostname-override=node-a");
        command.arg("--cluster-cidr=10.244.0.0/16").arg("--conntrack-max-per-core=0").arg("-v=2");
        command.arg("--kubeconfig").arg(self.control_plane.kubeconfig(Identity::KubeProxy));
        self.start_program("kube-proxy", command)
    }

    pub(crate) fn start_program(&self, name: &str, command: Command) -> Program {
        let log = self.path(&format!("{name}.log"));
        Program::start(self.lab.host(topology::NODE), name, command, &log).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.control_plane.folder().join(name)
    }

    /// Runs a command on the node under test.
    pub(crate) fn run(&self, mut command: Command) -> Output {
        self.lab.host(topology::NODE).run(|| command.output()).unwrap()
    }

    /// One connection: the host that answered, `refused` or `silent`.
    pub(crate) fn answer(&self, from: &str, to: &str) -> String {
        self.answer_within(from, to, ANSWER_WITHIN)
    }

    fn answer_within(&self, from: &str, to: &str, timeout: Duration) -> String {
        match self.lab.probe(&source(from), address(to), Protocol::Tcp, timeout) {
            Outcome::Answered { by, .. } => by,
            Outcome::Refused => "refused".into(),
            Outcome::TimedOut => "silent".into(),
            Outcome::Failed(reason) => reason,
        }
    }

    /// Waits until a connection has this result: the host that answers, `refused` or `silent`.
    pub(crate) fn until_answer(&self, from: &str, to: &str, expected: &str) -> Duration {
        let mut last = String::new();
        let what = format!("{from} connects to {to} and gets {expected}");
        until(&what, || {
            last = self.answer_within(from, to, Duration::from_millis(300));
            last == expected
        })
    }

    pub(crate) fn connect(&self, from: &str, to: &str) -> LongConnection {
        self.lab.open_connection(&source(from), address(to), Protocol::Tcp, ANSWER_WITHIN).unwrap()
    }
}

fn source(name: &str) -> Source {
    Source::parse(name, address("0.0.0.0:0").ip()).unwrap()
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}
