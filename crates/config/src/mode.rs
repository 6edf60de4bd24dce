//! The modes that an operator may request.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AskedMode {
    #[default]
    Unset,
    Iptables,
    Ipvs,
    Nftables,
    Userspace,
    Kernelspace,
    Ebpf,
}

impl AskedMode {
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

    /// Whether kube-proxy serves node ports on every address of the node by default.
    pub fn serves_node_ports_everywhere(self) -> bool {
        self.section() != "nftables"
    }
}
