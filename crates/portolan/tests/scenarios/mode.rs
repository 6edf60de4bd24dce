//! The modes under test, each with its kernel.

use portolan_dataplane::iptables::{Iptables, IptablesKernel};
use portolan_dataplane::ipvs::{Ipvs, IpvsKernel};
use portolan_dataplane::nftables::{Nftables, NftablesKernel};
use portolan_dataplane::userspace::{Userspace, UserspaceKernel};
use portolan_dataplane::{Dataplane, Program};
use portolan_plan::{Limits, Plan};
use portolan_testkit::{Expected, PacketLine, Scenario};

use crate::support::{Session, facts};

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

    /// The plan of each step of a scenario, with the steps played so many times.
    fn plans(scenario: &Scenario, rounds: usize) -> Vec<Plan> {
        let mut session = Self::session(scenario);
        facts(scenario, rounds).iter().map(|snapshot| session.follow(snapshot).clone()).collect()
    }

    /// What a scenario's line means in this mode: the fate that it gives for the mode, or the one for all modes.
    fn adapted(line: &PacketLine) -> PacketLine {
        let is_written = line.exceptions.iter().any(|(mode, _)| mode == Self::NAME);
        let line = line.in_mode(Self::NAME);
        if Self::LIMITS.relayed && !is_written { relayed(line) } else { line }
    }
}

/// An endpoint sees a relayed connection come from the node.
fn relayed(mut line: PacketLine) -> PacketLine {
    if let Expected::Forward { masquerade, .. } = &mut line.expected {
        *masquerade = true;
    }
    line
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
}

impl Mode for Ipvs {
    const NAME: &'static str = "ipvs";
    const LIMITS: Limits = Limits { relayed: false, virtual_servers: true };
    type Kernel = IpvsKernel;

    fn make(masquerade_bit: u8) -> Self {
        Self::new(masquerade_bit, "rr")
    }
}
