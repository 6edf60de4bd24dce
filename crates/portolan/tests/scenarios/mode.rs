//! A mode of the registry under test.

use std::net::IpAddr;

use portolan_dataplane::mode::{ActiveMode, Mode, ModeView, Synchronize};
use portolan_dataplane::tables::{VARIANT_OPTION, Variant};
use portolan_dataplane::{ModeSettings, OptionValue, Options, modes};
use portolan_plan::Plan;
use portolan_testkit::{CapabilitySet, Expected, Lab, PacketLine, Protocol, Scenario, topology};

use crate::support::{Session, facts};

/// The cgroup that hooks are attached to.
const CGROUP_OPTION: &str = "ebpf-cgroup";

pub(crate) const HOOK_CAPABILITIES: CapabilitySet =
    CapabilitySet::BPF.union(CapabilitySet::NET_ADMIN).union(CapabilitySet::PERFMON);

#[derive(Clone, Copy)]
pub(crate) struct Tested {
    pub(crate) mode: &'static dyn Mode,
    /// For modes with iptables rules.
    pub(crate) variant: Variant,
    /// Whether clients on the node meet the mode's hooks, if it has any.
    pub(crate) is_hooked: bool,
}

/// Every mode of the registry, or the one that the variable MODE names.
pub(crate) fn all() -> impl Iterator<Item = Tested> {
    let wanted = std::env::var("MODE").unwrap_or_default();
    let is_wanted = move |mode: &&&dyn Mode| wanted.is_empty() || wanted.split(' ').next() == Some(mode.name());
    modes::ALL.iter().filter(is_wanted).map(|mode| Tested { mode: *mode, variant: Variant::Nft, is_hooked: true })
}

impl Tested {
    pub(crate) fn name(self) -> &'static str {
        self.mode.name()
    }

    /// Whether the mode has iptables rules.
    pub(crate) fn has_tables(self) -> bool {
        let listing = self.mode.view(&self.settings(14), None).render(&Plan::default()).listing;
        listing.lines().any(|line| line == "*nat")
    }

    pub(crate) fn session(self, scenario: &Scenario) -> Session {
        let mut session = Session::new(scenario);
        session.config.limits = self.mode.limits();
        session
    }

    /// The plan of each step of a scenario, with the steps repeated so many times.
    pub(crate) fn plans(self, scenario: &Scenario, rounds: usize) -> Vec<Plan> {
        let mut session = self.session(scenario);
        facts(scenario, rounds).iter().map(|snapshot| session.follow(snapshot).clone()).collect()
    }

    pub(crate) fn settings(self, masquerade_bit: u8) -> ModeSettings {
        let mut options = Options::default();
        options.set(VARIANT_OPTION, OptionValue::Text(self.variant.name().into()));
        ModeSettings { masquerade_bit, options, ..ModeSettings::default() }
    }

    pub(crate) fn view(self, scenario: &Scenario) -> Box<dyn ModeView> {
        self.mode.view(&self.settings(self.session(scenario).masquerade_bit), None)
    }

    /// The mode on a kernel in memory that fails one call in ten.
    pub(crate) fn on_failing_kernel(self, scenario: &Scenario, seed: u64) -> Box<dyn Synchronize> {
        self.mode.in_memory(&self.settings(self.session(scenario).masquerade_bit), 10, seed)
    }

    /// A lab that the mode can be opened on.
    pub(crate) fn lab(self) -> Result<Lab, String> {
        let lab = match (self.has_hooks(), self.is_hooked) {
            (false, _) => Lab::new(),
            (true, true) => Lab::with_cgroup().map(Lab::without_connected_udp),
            (true, false) => Lab::beside_cgroup(),
        };
        lab.map_err(|error| error.to_string())
    }

    pub(crate) fn has_hooks(self) -> bool {
        self.mode.limits().at_connect
    }

    /// The mode on the lab's node.
    pub(crate) fn open(self, lab: &Lab, masquerade_bit: u8) -> Result<Box<dyn ActiveMode>, String> {
        let mut settings = self.settings(masquerade_bit);
        if let Some(cgroup) = lab.cgroup() {
            settings.options.set(CGROUP_OPTION, OptionValue::Text(cgroup.display().to_string()));
        }
        if self.has_hooks() {
            // Mounts the file system of pins where it is missing, which needs more capabilities than the mode itself.
            self.mode.missing().map_or(Ok(()), Err)?;
        }
        self.run(lab, || self.mode.open(&settings)).map_err(|error| error.to_string())
    }

    /// Runs the closure on the lab's node. The lab needs all capabilities; hooks need three, and nothing shows that as well as
    /// all scenarios.
    pub(crate) fn run<T: Send>(self, lab: &Lab, job: impl FnOnce() -> T + Send) -> T {
        let node = lab.host(topology::NODE);
        if self.has_hooks() { node.run_with(HOOK_CAPABILITIES, job) } else { node.run(job) }
    }

    /// A scenario's line in this mode: the fate for the mode, or the one for all modes. Past the hooks it is that of the rules.
    pub(crate) fn adapted(self, line: &PacketLine) -> PacketLine {
        if self.has_hooks() && !self.is_hooked {
            return line.in_mode(modes::default().name());
        }
        let is_written = line.exceptions.iter().any(|(mode, _)| mode == self.name());
        let line = line.in_mode(self.name());
        let limits = self.mode.limits();
        match is_written {
            false if limits.relayed => with_masquerade(line, true),
            false if limits.load_balancers.is_some() => balanced(line),
            false if limits.at_connect && is_hooked(&line) => with_masquerade(line, false),
            _ => line,
        }
    }
}

/// Whether hooks at connect(2) see the packet's socket.
fn is_hooked(line: &PacketLine) -> bool {
    line.source.is_on_node() && line.protocol != Protocol::Sctp
}

/// A load balancer refuses nothing, and one without direct return rewrites the source of all that is sent to a ClusterIP. Source
/// ranges are written with the line.
fn balanced(line: PacketLine) -> PacketLine {
    match &line.expected {
        Expected::Reject(_) => PacketLine { expected: Expected::Pass, ..line },
        Expected::Drop(reason) if reason != "source-not-allowed" => PacketLine { expected: Expected::Pass, ..line },
        _ if is_of_service_range(&line) => with_masquerade(line, true),
        _ => line,
    }
}

fn is_of_service_range(line: &PacketLine) -> bool {
    match line.destination.ip() {
        IpAddr::V4(address) => address.octets()[..2] == [10, 96],
        IpAddr::V6(address) => address.segments()[..3] == [0xfd00, 0x10, 0x96],
    }
}

/// An endpoint sees the node as the source of a relayed connection, and the client itself where a hook has translated the
/// socket's destination.
fn with_masquerade(mut line: PacketLine, is_masqueraded: bool) -> PacketLine {
    if let Expected::Forward { masquerade, .. } = &mut line.expected {
        *masquerade = is_masqueraded;
    }
    line
}
