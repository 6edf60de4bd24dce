//! A mode of the registry under test.

use portolan_dataplane::mode::{ActiveMode, Mode, ModeView, Synchronize};
use portolan_dataplane::tables::{VARIANT_OPTION, Variant};
use portolan_dataplane::{ModeSettings, OptionValue, Options, modes};
use portolan_plan::Plan;
use portolan_testkit::{Expected, Lab, PacketLine, Scenario, topology};

use crate::support::{Session, facts};

#[derive(Clone, Copy)]
pub(crate) struct Tested {
    pub(crate) mode: &'static dyn Mode,
    /// For modes with iptables rules.
    pub(crate) variant: Variant,
}

/// Every mode of the registry.
pub(crate) fn all() -> impl Iterator<Item = Tested> {
    modes::ALL.iter().map(|mode| Tested { mode: *mode, variant: Variant::Nft })
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

    /// The mode on the lab's node.
    pub(crate) fn open(self, lab: &Lab, masquerade_bit: u8) -> Result<Box<dyn ActiveMode>, String> {
        let settings = self.settings(masquerade_bit);
        lab.host(topology::NODE).run(|| self.mode.open(&settings)).map_err(|error| error.to_string())
    }

    /// A scenario's line in this mode: the fate for the mode, or the one for all modes.
    pub(crate) fn adapted(self, line: &PacketLine) -> PacketLine {
        let is_written = line.exceptions.iter().any(|(mode, _)| mode == self.name());
        let line = line.in_mode(self.name());
        if self.mode.limits().relayed && !is_written { relayed(line) } else { line }
    }
}

/// An endpoint sees the node as the source of a relayed connection.
fn relayed(mut line: PacketLine) -> PacketLine {
    if let Expected::Forward { masquerade, .. } = &mut line.expected {
        *masquerade = true;
    }
    line
}
