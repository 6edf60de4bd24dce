//! The programs that are measured: start and cleanup.

use std::path::Path;
use std::process::Command;

use portolan_testkit::cluster::kubernetes_program;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Portolan,
    PortolanIptables,
    KubeProxyNftables,
    KubeProxyIptables,
}

const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");

impl Contender {
    pub(crate) const ALL: [Self; 4] =
        [Self::Portolan, Self::KubeProxyNftables, Self::PortolanIptables, Self::KubeProxyIptables];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portolan => "Portolan",
            Self::PortolanIptables => "Portolan iptables",
            Self::KubeProxyNftables => "kube-proxy nftables",
            Self::KubeProxyIptables => "kube-proxy iptables",
        }
    }

    fn mode(self) -> &'static str {
        match self {
            Self::Portolan | Self::KubeProxyNftables => "nftables",
            Self::KubeProxyIptables | Self::PortolanIptables => "iptables",
        }
    }

    /// All get the same flags. kube-proxy is fastest without a minimum time between two syncs.
    pub(crate) fn command(self, kubeconfig: &Path, folder: &Path) -> Command {
        let mut command = self.program();
        if matches!(self, Self::Portolan | Self::PortolanIptables) {
            command.arg("proxy").arg("--control-socket").arg(folder.join("portolan.sock"));
        }
        command.arg("--kubeconfig").arg(kubeconfig).arg(format!("--proxy-mode={}", self.mode()));
        command.args(["--hostname-override=node-a", "--cluster-cidr=10.244.0.0/16", "--conntrack-max-per-core=0"]);
        command.arg("--iptables-min-sync-period=0s");
        command
    }

    pub(crate) fn clean_up(self) -> Command {
        let mut command = self.program();
        match self {
            Self::Portolan | Self::PortolanIptables => command.arg("cleanup"),
            Self::KubeProxyNftables | Self::KubeProxyIptables => command.arg("--cleanup"),
        };
        command
    }

    fn program(self) -> Command {
        match self {
            Self::Portolan | Self::PortolanIptables => Command::new(PORTOLAN),
            _ => Command::new(kubernetes_program("kube-proxy").expect("tests/cluster/build has built it")),
        }
    }
}
