//! The programs that are measured: start and cleanup.

use std::path::Path;
use std::process::Command;

use portolan_dataplane::modes;
use portolan_testkit::cluster::kubernetes_program;

use crate::stage::Stage;

/// A program in one of its modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    program: Program,
    mode: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Portolan,
    KubeProxy,
}

const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");

impl Contender {
    pub(crate) const ALL: [Self; 5] = [
        Self::portolan("nftables"),
        Self::portolan("ebpf"),
        Self::kube_proxy("nftables"),
        Self::portolan("iptables"),
        Self::kube_proxy("iptables"),
    ];

    pub(crate) const fn portolan(mode: &'static str) -> Self {
        Self { program: Program::Portolan, mode }
    }

    pub(crate) const fn kube_proxy(mode: &'static str) -> Self {
        Self { program: Program::KubeProxy, mode }
    }

    /// The default mode is not named.
    pub(crate) fn name(self) -> String {
        match self.program {
            Program::Portolan if self.mode == modes::default().name() => "Portolan".into(),
            Program::Portolan => format!("Portolan {}", self.mode),
            Program::KubeProxy => format!("kube-proxy {}", self.mode),
        }
    }

    /// All get the same flags. kube-proxy is fastest without a minimum time between two syncs.
    pub(crate) fn command(self, stage: &Stage) -> Command {
        let mut command = self.program();
        if self.program == Program::Portolan {
            add_own_flags(&mut command, stage, &stage.folder());
        }
        command.arg("--kubeconfig").arg(stage.kubeconfig()).arg(format!("--proxy-mode={}", self.mode));
        command.args(["--hostname-override=node-a", "--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0"]);
        command.arg("--iptables-min-sync-period=0s");
        command
    }

    pub(crate) fn clean_up(self) -> Command {
        let mut command = self.program();
        command.arg(match self.program {
            Program::Portolan => "cleanup",
            Program::KubeProxy => "--cleanup",
        });
        command
    }

    fn program(self) -> Command {
        match self.program {
            Program::Portolan => Command::new(PORTOLAN),
            Program::KubeProxy => {
                Command::new(kubernetes_program("kube-proxy").expect("tests/cluster/build has built it"))
            }
        }
    }
}

/// Hooks are attached to the cgroup of the clients. At the root they would concern every process of this machine.
fn add_own_flags(command: &mut Command, stage: &Stage, folder: &Path) {
    command.args(["proxy", "--strict-mode", "--control-socket"]).arg(folder.join("portolan.sock"));
    command.args(stage.lab.cgroup().map(|cgroup| format!("--ebpf-cgroup={}", cgroup.display())));
}
