//! A lab on which several scenarios run in turn.

use portolan_dataplane::mode::ActiveMode;
use portolan_plan::Plan;
use portolan_testkit::{Lab, Scenario};

use crate::live::{check_steps, program};
use crate::mode::Tested;

/// A lab whose node runs one mode, for several scenarios in turn. Between two of them the Services are removed, with
/// the lab's servers and tracked connections.
pub(crate) struct Bench {
    lab: Lab,
    tested: Tested,
    active: Box<dyn ActiveMode>,
    masquerade_bit: u8,
    /// The scenarios that have run here, for the message of one that fails.
    passed: Vec<String>,
}

impl Bench {
    fn open(tested: Tested, masquerade_bit: u8) -> Result<Self, String> {
        let lab = tested.lab()?;
        let active = tested.open(&lab, masquerade_bit)?;
        Ok(Self { lab, tested, active, masquerade_bit, passed: Vec::new() })
    }

    fn check(&mut self, scenario: &Scenario) -> Result<(), String> {
        let steps = check_steps(&self.lab, scenario, self.tested, &mut *self.active);
        let outcome = steps.and_then(|plan| self.remove_services(plan));
        outcome.map_err(|failure| format!("{failure}\n(before on the same lab: {})", self.passed.join(", ")))?;
        self.passed.push(scenario.name.clone());
        Ok(())
    }

    fn remove_services(&mut self, mut plan: Plan) -> Result<(), String> {
        plan.services = Default::default();
        program(&self.lab, self.tested, &mut *self.active, &plan)
            .map_err(|error| format!("without Services: {error}"))?;
        self.lab.reset().map_err(|error| error.to_string())
    }
}

/// Runs the scenario on the bench of the previous scenario, or on a new one. A scenario that fails drops its bench, so
/// that leftovers affect no other.
pub(crate) fn check_on_bench(bench: &mut Option<Bench>, scenario: &Scenario, tested: Tested) -> Result<(), String> {
    let masquerade_bit = tested.session(scenario).masquerade_bit;
    let mut fit = match bench.take() {
        Some(bench) if bench.masquerade_bit == masquerade_bit => bench,
        _ => Bench::open(tested, masquerade_bit)?,
    };
    fit.check(scenario)?;
    *bench = Some(fit);
    Ok(())
}
