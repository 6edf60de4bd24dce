//! The modes that an operator may request.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfiguredMode {
    #[default]
    Unset,
    Iptables,
    Ipvs,
    Nftables,
    Userspace,
    Kernelspace,
    Ebpf,
}

impl ConfiguredMode {
    pub const ALL: [Self; 7] =
        [Self::Unset, Self::Iptables, Self::Ipvs, Self::Nftables, Self::Userspace, Self::Kernelspace, Self::Ebpf];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == text)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Unset => "",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Nftables => "nftables",
            Self::Userspace => "userspace",
            Self::Kernelspace => "kernelspace",
            Self::Ebpf => "ebpf",
        }
    }

    /// The section of the file whose sync periods and masquerading apply.
    pub fn section(self) -> &'static str {
        match self {
            Self::Ipvs => "ipvs",
            Self::Nftables | Self::Ebpf => "nftables",
            Self::Unset | Self::Iptables | Self::Userspace | Self::Kernelspace => "iptables",
        }
    }

    /// The section whose masquerading applies: ipvs has none of its own and uses that of iptables.
    pub fn masquerade_section(self) -> &'static str {
        if self.section() == "nftables" { "nftables" } else { "iptables" }
    }

    /// Whether kube-proxy serves node ports on 127.0.0.1. Its default mode is iptables.
    pub fn serves_loopback_node_ports(self, unset_is_kube_proxys: bool) -> bool {
        self == Self::Iptables || (self == Self::Unset && unset_is_kube_proxys)
    }

    /// Whether kube-proxy serves node ports on every address of the node by default.
    pub fn serves_node_ports_everywhere(self) -> bool {
        self.section() != "nftables"
    }
}
