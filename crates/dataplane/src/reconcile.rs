//! From plan to kernel, once for all modes.
//!
//! A sync renders only the Services whose `Arc` changed, old and new, and applies the difference: its cost follows the
//! change. After any error nothing is believed but what the kernel itself says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::{DiffItem, OrdMap};
use portolan_plan::{NodePlan, Plan, PortKey, ServicePlan, invalidates_affinity};

use crate::objects::{Change, Objects};
use crate::{Dataplane, Error, Observe, Program};

/// How often a full sync reads again because somebody else keeps writing to the kernel.
const READ_ATTEMPTS: usize = 5;

pub struct Reconciler<D: Dataplane, K> {
    dataplane: D,
    kernel: K,
    /// What the kernel is known to hold; `None` when it must be read first.
    applied: Option<Applied<D>>,
}

struct Applied<D: Dataplane> {
    plan: Plan,
    /// How many Services want each shared object.
    wanted_by: BTreeMap<D::Key, u32>,
}

/// What one sync did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Objects written, changed or removed.
    pub objects: usize,
    /// Service ports that were rendered.
    pub services: usize,
    /// The kernel was read and compared as a whole.
    pub full: bool,
    /// In a full sync: the kernel did not hold what it should have held by the last sync.
    pub repaired: usize,
    /// Time spent in the transaction itself.
    pub kernel_time: Duration,
}

impl<D: Dataplane, K: Program<D>> Reconciler<D, K> {
    pub fn new(dataplane: D, kernel: K) -> Self {
        Self { dataplane, kernel, applied: None }
    }

    pub fn dataplane(&self) -> &D {
        &self.dataplane
    }

    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Plans are said differently from now on, so that what the kernel holds must be read before the next sync.
    pub fn respell(&mut self, dataplane: D) {
        self.dataplane = dataplane;
        self.applied = None;
    }

    /// The plan that the kernel is known to hold.
    pub fn applied(&self) -> Option<&Plan> {
        self.applied.as_ref().map(|applied| &applied.plan)
    }

    /// Makes the kernel say what the plan says. The clock comes from outside, to time the transaction.
    pub fn sync(&mut self, plan: &Plan, clock: &dyn Fn() -> Duration) -> Result<SyncReport, Error> {
        match self.applied.take() {
            Some(applied) if self.dataplane.says_alike(&plan.node, &applied.plan.node) => {
                self.sync_changes(applied, plan, clock)
            }
            _ => self.sync_everything(plan, clock),
        }
    }

    /// As [`Self::sync`], but believes what was written before only if the kernel says that nobody else wrote since.
    pub fn sync_and_check(&mut self, plan: &Plan, clock: &dyn Fn() -> Duration) -> Result<SyncReport, Error> {
        if self.applied.is_some() && self.kernel.is_undisturbed()? {
            return self.sync(plan, clock);
        }
        self.sync_everything(plan, clock)
    }

    /// Reads the kernel and repairs whatever differs, whoever caused it.
    pub fn sync_everything(&mut self, plan: &Plan, clock: &dyn Fn() -> Duration) -> Result<SyncReport, Error> {
        let known = self.applied.take();
        let mut attempt = 1;
        loop {
            // A neighbour who writes all the time would keep us out for ever, so the last attempt does not ask.
            let is_last = attempt == READ_ATTEMPTS;
            let known = known.as_ref().map(|applied| &applied.plan);
            match self.try_sync_everything(plan, known, !is_last, clock) {
                Err(error) if error.is_outdated() && !is_last => attempt += 1,
                other => return other,
            }
        }
    }

    fn try_sync_everything(
        &mut self,
        plan: &Plan,
        known: Option<&Plan>,
        only_if_undisturbed: bool,
        clock: &dyn Fn() -> Duration,
    ) -> Result<SyncReport, Error> {
        let (wanted, wanted_by) = render_counted(&self.dataplane, plan);
        let change = Change::between(self.kernel.read()?, wanted);
        let mut report = SyncReport { full: true, services: plan.services.len(), ..Default::default() };
        report.repaired = if known.is_some_and(|known| known == plan) { change.len() } else { 0 };
        self.write(&change, only_if_undisturbed, clock, &mut report)?;
        self.forget_clients(plan)?;
        self.applied = Some(Applied { plan: plan.clone(), wanted_by });
        Ok(report)
    }

    fn sync_changes(
        &mut self,
        mut applied: Applied<D>,
        plan: &Plan,
        clock: &dyn Fn() -> Duration,
    ) -> Result<SyncReport, Error> {
        let mut report = SyncReport::default();
        let (mut before, mut after) = self.node_changes(&applied.plan.node, &plan.node);
        let (mut shared, mut loses_some) = (BTreeMap::new(), false);
        for (old, new) in changed_ports(&applied.plan.services, &plan.services) {
            report.services += 1;
            self.render_into(&plan.node, old, -1, &mut before, &mut shared);
            self.render_into(&plan.node, new, 1, &mut after, &mut shared);
            loses_some |= invalidates_affinity(old.map(Arc::as_ref), new.map(Arc::as_ref));
        }
        applied.count(shared, &mut before, &mut after);
        self.write(&Change::between(before, after), false, clock, &mut report)?;
        if loses_some {
            self.forget_clients(plan)?;
        }
        applied.plan = plan.clone();
        self.applied = Some(applied);
        Ok(report)
    }

    fn node_changes(&self, old: &NodePlan, new: &NodePlan) -> (Objects<D>, Objects<D>) {
        match old == new {
            true => (Objects::new(), Objects::new()),
            false => (self.dataplane.render_node(old), self.dataplane.render_node(new)),
        }
    }

    fn write(
        &mut self,
        change: &Change<D>,
        only_if_undisturbed: bool,
        clock: &dyn Fn() -> Duration,
        report: &mut SyncReport,
    ) -> Result<(), Error> {
        report.objects = change.len();
        if change.is_empty() {
            return Ok(());
        }
        let start = clock();
        self.kernel.apply(change, only_if_undisturbed)?;
        report.kernel_time = clock().saturating_sub(start);
        Ok(())
    }

    fn render_into(
        &self,
        node: &NodePlan,
        port: Option<&Arc<ServicePlan>>,
        step: i64,
        owned: &mut Objects<D>,
        shared: &mut BTreeMap<D::Key, (D::Value, i64)>,
    ) {
        let Some(port) = port else { return };
        for (key, value) in self.dataplane.render_service(node, port).0 {
            if self.dataplane.is_shared(&key) {
                shared.entry(key).or_insert((value, 0)).1 += step;
            } else {
                owned.0.insert(key, value);
            }
        }
    }

    fn forget_clients(&mut self, plan: &Plan) -> Result<(), Error> {
        self.kernel.forget_clients(&|choice| plan.keeps_client(choice)).map(|_| ())
    }
}

impl<D: Dataplane> Applied<D> {
    /// Shared objects come with the first Service that wants them and go with the last.
    fn count(&mut self, steps: BTreeMap<D::Key, (D::Value, i64)>, before: &mut Objects<D>, after: &mut Objects<D>) {
        for (key, (value, step)) in steps {
            let old = i64::from(self.wanted_by.get(&key).copied().unwrap_or(0));
            let new = old + step;
            match (old, new) {
                (0, 1..) => _ = after.0.insert(key.clone(), value),
                (1.., 0) => _ = before.0.insert(key.clone(), value),
                _ => {}
            }
            match u32::try_from(new) {
                Ok(0) | Err(_) => _ = self.wanted_by.remove(&key),
                Ok(count) => _ = self.wanted_by.insert(key, count),
            }
        }
    }
}

type PortPlans = OrdMap<PortKey, Arc<ServicePlan>>;

fn changed_ports<'a>(
    before: &'a PortPlans,
    after: &'a PortPlans,
) -> impl Iterator<Item = (Option<&'a Arc<ServicePlan>>, Option<&'a Arc<ServicePlan>>)> {
    before.diff(after).map(|item| match item {
        DiffItem::Add(_, new) => (None, Some(new)),
        DiffItem::Remove(_, old) => (Some(old), None),
        DiffItem::Update { old, new } => (Some(old.1), Some(new.1)),
    })
}

/// Everything that the kernel should hold for a plan.
pub fn render<D: Dataplane>(dataplane: &D, plan: &Plan) -> Objects<D> {
    render_counted(dataplane, plan).0
}

fn render_counted<D: Dataplane>(dataplane: &D, plan: &Plan) -> (Objects<D>, BTreeMap<D::Key, u32>) {
    let mut wanted_by = BTreeMap::new();
    let services = plan.services.values().flat_map(|port| dataplane.render_service(&plan.node, port).0);
    let counted = services.inspect(|(key, _)| {
        if dataplane.is_shared(key) {
            *wanted_by.entry(key.clone()).or_insert(0) += 1;
        }
    });
    let objects = dataplane.render_node(&plan.node).0.into_iter().chain(counted).collect();
    (Objects(objects), wanted_by)
}

/// What the kernel holds against what it should hold. Reads only.
pub fn verify<D: Dataplane>(dataplane: &D, kernel: &mut dyn Observe<D>, plan: &Plan) -> Result<Change<D>, Error> {
    Ok(Change::between(kernel.read()?, render(dataplane, plan)))
}
