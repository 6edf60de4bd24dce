//! The programs that are measured, pinned to one core.

use std::path::PathBuf;
use std::process::Command;

use portolan_testkit::cluster::Program;

use crate::load::{self, PORT};
use crate::stage::Stage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Portolan,
    CoreDns,
}

impl Contender {
    pub(crate) const ALL: [Self; 2] = [Self::Portolan, Self::CoreDns];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portolan => "Portolan",
            Self::CoreDns => "CoreDNS 1.14.7",
        }
    }

    /// Returns when the last name is answered.
    pub(crate) fn start(self, stage: &Stage) -> Program {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]);
        match self {
            Self::Portolan => portolan(&mut command, stage),
            Self::CoreDns => coredns(&mut command, stage),
        }
        let log = stage.folder().join(format!("{self:?}.log"));
        let running = Program::start(stage.node(), self.name(), command, &log).expect("it starts");
        let last = format!("s{}.default.svc.cluster.local", crate::SERVICES - 1);
        stage.node().run(|| load::until_answered(&last));
        running
    }
}

fn portolan(command: &mut Command, stage: &Stage) {
    command.arg(env!("CARGO_BIN_EXE_portolan")).args(["dns", "--upstream", "none", "--threads", "1", "--ttl", "30"]);
    command.arg("--listen").arg(format!("127.0.0.1:{PORT}")).arg("--kubeconfig").arg(stage.kubeconfig());
}

/// kubeadm's Corefile without forwarding.
fn coredns(command: &mut Command, stage: &Stage) {
    let corefile = stage.folder().join("Corefile");
    let text = format!(
        ".:{PORT} {{
    bind 127.0.0.1
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {}
        pods insecure
        ttl 30
    }}
    prometheus 127.0.0.1:9153
    cache 30
    loadbalance
}}
",
        stage.kubeconfig().display()
    );
    std::fs::write(&corefile, text).expect("the Corefile can be written");
    command.arg(program()).arg("-conf").arg(corefile).env("GOMAXPROCS", "1");
}

/// Where tests/coredns/build puts it.
fn program() -> PathBuf {
    let cache = std::env::var_os("PORTOLAN_CACHE").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/portolan");
    cache.unwrap_or_else(home).join("coredns/coredns")
}
