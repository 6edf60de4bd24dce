//! A lab that one scenario after the other is run on.

use portolan_dataplane::{Error, Reconciler};
use portolan_plan::Plan;
use portolan_testkit::{Lab, Scenario, topology};

use crate::live::{check_steps, program};
use crate::mode::Mode;

/// A lab whose node runs one mode, for one scenario after the other. Between two of them the Services are removed, and
/// the lab's servers and tracked connections with them.
pub(crate) struct Bench<M: Mode> {
    lab: Lab,
    reconciler: Reconciler<M, M::Kernel>,
    masquerade_bit: u8,
    /// The scenarios that have run here, for the message of the one that fails.
    passed: Vec<String>,
}

impl<M: Mode> Bench<M> {
    /// The kernel is opened on a thread of the lab's node.
    fn open(masquerade_bit: u8, open: &(impl Fn() -> Result<M::Kernel, Error> + Sync)) -> Result<Self, String> {
        let lab = Lab::new().map_err(|error| error.to_string())?;
        let kernel = lab.host(topology::NODE).run(open).map_err(|error| error.to_string())?;
        let reconciler = Reconciler::new(M::make(masquerade_bit), kernel);
        Ok(Self { lab, reconciler, masquerade_bit, passed: Vec::new() })
    }

    fn check(&mut self, scenario: &Scenario) -> Result<(), String> {
        let outcome =
            check_steps(&self.lab, scenario, &mut self.reconciler).and_then(|plan| self.remove_services(plan));
        outcome.map_err(|failure| format!("{failure}\n(before on the same lab: {})", self.passed.join(", ")))?;
        self.passed.push(scenario.name.clone());
        Ok(())
    }

    fn remove_services(&mut self, mut plan: Plan) -> Result<(), String> {
        plan.services = Default::default();
        program(&self.lab, &mut self.reconciler, &plan).map_err(|error| format!("without Services: {error}"))?;
        self.lab.reset().map_err(|error| error.to_string())
    }
}

/// Runs the scenario on the bench of the scenario before, or on a new one if there is none. A scenario that fails takes
/// its bench with it, so that what it left behind fails no other.
pub(crate) fn check_on_bench<M: Mode>(
    bench: &mut Option<Bench<M>>,
    scenario: &Scenario,
    open: &(impl Fn() -> Result<M::Kernel, Error> + Sync),
) -> Result<(), String> {
    let masquerade_bit = M::session(scenario).masquerade_bit;
    let mut fit = match bench.take() {
        Some(bench) if bench.masquerade_bit == masquerade_bit => bench,
        _ => Bench::open(masquerade_bit, open)?,
    };
    fit.check(scenario)?;
    *bench = Some(fit);
    Ok(())
}
