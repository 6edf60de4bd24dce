//! The modes, each with the kernel that it is tried on.

use portolan_dataplane::iptables::{Iptables, IptablesKernel};
use portolan_dataplane::ipvs::{Ipvs, IpvsKernel};
use portolan_dataplane::nftables::{Nftables, NftablesKernel};
use portolan_dataplane::userspace::{Userspace, UserspaceKernel};
use portolan_dataplane::{Dataplane, Program};
use portolan_plan::Limits;
use portolan_testkit::{Expected, PacketLine, Protocol, Scenario};

use crate::support::Session;

/// One mode, and its kernel.
pub(crate) trait Mode: Dataplane<Key: Send, Value: Send> + Send + Sync + Sized {
    const NAME: &'static str;
    type Kernel: Program<Self> + Send;

    /// What the plan decides around.
    const LIMITS: Limits = Limits { relayed: false, virtual_servers: false };

    fn make(masquerade_bit: u8) -> Self;

    fn session(scenario: &Scenario) -> Session {
        let mut session = Session::new(scenario);
        session.config.limits = Self::LIMITS;
        session
    }

    /// What a scenario's line means in this mode.
    fn adapted(line: &PacketLine) -> PacketLine {
        line.in_mode(Self::NAME)
    }
}

impl Mode for Nftables {
    const NAME: &'static str = "nftables";
    type Kernel = NftablesKernel;

    fn make(masquerade_bit: u8) -> Self {
        Self::new(masquerade_bit)
    }
}

impl Mode for Iptables {
    const NAME: &'static str = "iptables";
    type Kernel = IptablesKernel;

    fn make(masquerade_bit: u8) -> Self {
        Self::new(masquerade_bit)
    }
}

impl Mode for Userspace {
    const NAME: &'static str = "userspace";
    const LIMITS: Limits = Limits { relayed: true, virtual_servers: false };
    type Kernel = UserspaceKernel;

    fn make(_: u8) -> Self {
        Self
    }

    /// Whatever is relayed comes from the node, and SCTP is not relayed.
    fn adapted(line: &PacketLine) -> PacketLine {
        let expected = match (line.protocol, &line.expected) {
            (Protocol::Sctp, Expected::Forward { .. }) => Expected::Reject("unsupported-protocol".into()),
            (_, Expected::Forward { endpoints, .. }) => {
                Expected::Forward { endpoints: endpoints.clone(), masquerade: true }
            }
            (_, other) => other.clone(),
        };
        PacketLine { expected, ..line.clone() }
    }
}

impl Mode for Ipvs {
    const NAME: &'static str = "ipvs";
    const LIMITS: Limits = Limits { relayed: false, virtual_servers: true };
    type Kernel = IpvsKernel;

    fn make(masquerade_bit: u8) -> Self {
        Self::new(masquerade_bit, "rr")
    }
}
