//! The read-only side of a mode, once for all modes.

use portolan_plan::{Packet, Plan, Trace};

use crate::difference::Difference;
use crate::machine::read_foreign;
use crate::mode::{ModeView, Rendered};
use crate::reconcile::{compare, render};
use crate::walk::NoRules;
use crate::{Change, Dataplane, Error, Objects, Observe};

/// A mode's objects, their listing, and the kernel opened for reading.
pub(crate) struct View<D: Dataplane> {
    pub(crate) dataplane: D,
    pub(crate) listing: fn(&Objects<D>) -> String,
    pub(crate) open: Open<D>,
}

pub(crate) type Open<D> = Box<dyn Fn() -> Result<Box<dyn Observe<D>>, Error>>;

impl<D: Dataplane> ModeView for View<D> {
    fn render(&self, plan: &Plan) -> Rendered {
        let objects = render(&self.dataplane, plan);
        let each = objects.0.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Rendered { listing: (self.listing)(&objects), objects: each }
    }

    fn trace(&self, plan: &Plan, packet: &Packet) -> Trace {
        self.dataplane.trace(&render(&self.dataplane, plan), &plan.node, packet)
    }

    fn trace_all(&self, plan: &Plan, packets: &[Packet]) -> Vec<Trace> {
        let objects = render(&self.dataplane, plan);
        packets.iter().map(self.dataplane.tracer(&objects, &NoRules, &plan.node)).collect()
    }

    fn trace_kernel(&self, plan: &Plan, packet: &Packet) -> Result<Trace, Error> {
        let traces = self.trace_kernel_all(plan, std::slice::from_ref(packet))?;
        Ok(traces.into_iter().next().expect("there is a trace for each packet"))
    }

    fn trace_kernel_all(&self, plan: &Plan, packets: &[Packet]) -> Result<Vec<Trace>, Error> {
        let objects = (self.open)()?.read()?;
        let foreign = read_foreign(self.dataplane.own_table(), &|chain| self.dataplane.is_own_chain(chain));
        let tracer = self.dataplane.tracer(&objects, &foreign, &plan.node);
        let trace = |packet| {
            let mut trace = tracer(packet);
            trace.notes.splice(0..0, foreign.notes.iter().cloned());
            trace
        };
        Ok(packets.iter().map(trace).collect())
    }

    fn verify(&self, plan: &Plan) -> Result<Difference, Error> {
        let mut kernel = (self.open)()?;
        let held = kernel.read_sorted()?;
        let adjusted = kernel.dataplane();
        Ok(compare(adjusted.as_ref().unwrap_or(&self.dataplane), held, plan, |family| kernel.serves(family)))
    }

    fn difference(&self, before: &Plan, after: &Plan) -> Difference {
        let (before, after) = (render(&self.dataplane, before), render(&self.dataplane, after));
        let wanted = after.0.len();
        Difference::new(wanted, &Change::between(before, after))
    }
}
