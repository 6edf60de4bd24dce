//! From plan to kernel, once for all modes.
//!
//! A sync renders only the Services whose `Arc` changed, old and new, and applies the difference: its cost follows the
//! change. After an error, or a write by another process, the kernel is read and compared as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use portolan_model::Family;
use portolan_plan::{NodePlan, Plan, PortKey, ServicePlan};

use crate::difference::Difference;
use crate::mode::Synchronize;
use crate::objects::{Change, Objects, Sorted};
use crate::report::{Changes, SyncReport, Trust};
use crate::{Dataplane, Error, Observe, Program};

/// How often a full sync reads again because another process writes to the kernel.
const READ_ATTEMPTS: usize = 5;

/// How many clients of session affinity one sync reads: those of one Service port under attack, or of some hundred others.
const CLIENTS_PER_SYNC: usize = 65_536;
/// Reading a map costs as much as this many clients, even if it is empty.
const CLIENTS_PER_READ: usize = 100;

pub struct Reconciler<D: Dataplane, K> {
    dataplane: D,
    kernel: K,
    /// The plan of the last sync that succeeded.
    plan: Option<Plan>,
    /// How many Services use each shared object. `None` when the kernel may hold something else than the plan, so that
    /// it must be read.
    shared: Option<SharedCounts<D>>,
    /// Service ports whose session affinity may lead to endpoints that are gone.
    stale_clients: BTreeSet<PortKey>,
}

impl<D: Dataplane, K: Program<D>> Reconciler<D, K> {
    pub fn new(dataplane: D, kernel: K) -> Self {
        Self { dataplane, kernel, plan: None, shared: None, stale_clients: BTreeSet::new() }
    }

    pub fn dataplane(&self) -> &D {
        &self.dataplane
    }

    /// The plan of the last sync that succeeded.
    pub fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    pub fn kernel(&self) -> &K {
        &self.kernel
    }

    pub fn kernel_mut(&mut self) -> &mut K {
        &mut self.kernel
    }

    /// Renders with other settings from now on. The next sync reads the kernel.
    pub fn use_dataplane(&mut self, dataplane: D) {
        self.dataplane = dataplane;
        self.shared = None;
    }

    /// Reads the kernel for the next sync.
    pub fn read_ahead(&mut self) -> Result<(), Error> {
        self.kernel.read_ahead()
    }

    /// Makes the kernel hold the plan.
    pub fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        let mut report = SyncReport { changes: Changes::between(self.plan.as_ref(), plan), ..Default::default() };
        // Until the write has succeeded, the state of the kernel is unknown.
        let memory = self.shared.take().zip(self.plan.as_ref().map(|plan| plan.node.clone()));
        let trust = match trust {
            Trust::Notified if memory.is_some() => self.restore_noted(&mut report)?,
            Trust::Notified => Trust::Nothing,
            other => other,
        };
        let (restored, restoring) = (report.objects, report.kernel_time);
        let shared = match memory {
            Some((mut shared, node)) => {
                let change = self.planned_change(&mut shared, &node, plan, &report.changes);
                if self.is_trusted(&node, plan, trust)? {
                    report.services = report.changes.ports().len();
                    self.write(change, plan, false, &mut report)?;
                    shared
                } else {
                    let planned = self.dataplane.renders_alike(&plan.node, &node).then_some(&change);
                    self.write_everything(plan, planned, &mut report)?
                }
            }
            None => self.write_everything(plan, None, &mut report)?,
        };
        report.objects += restored;
        report.kernel_time += restoring;
        self.stale_clients.extend(report.changes.stale_clients(plan));
        report.unfinished = !self.forget_clients(plan)?;
        self.plan = Some(plan.clone());
        self.shared = report.failure.is_none().then_some(shared);
        Ok(report)
    }

    /// Repairs what the watch has noted, by the plan of the last sync. Returns what the rest of the sync may assume.
    fn restore_noted(&mut self, report: &mut SyncReport) -> Result<Trust, Error> {
        let Some(plan) = self.plan.clone() else { return Ok(Trust::Nothing) };
        let expected = render_counted(&self.dataplane, &plan, |family| self.kernel.serves(family)).0.into();
        let Some(change) = self.kernel.read_noted(&expected)? else { return Ok(Trust::Nothing) };
        report.repaired = change.len();
        self.write(change, &plan, false, report)?;
        Ok(if report.failure.take().is_none() { Trust::Memory } else { Trust::Nothing })
    }

    /// Whether the changes of the plan are all that has to be written.
    fn is_trusted(&mut self, before: &NodePlan, plan: &Plan, trust: Trust) -> Result<bool, Error> {
        let is_undisturbed = match trust {
            Trust::Memory => true,
            Trust::Generation => self.kernel.is_undisturbed()?,
            Trust::Notified | Trust::Nothing => false,
        };
        Ok(is_undisturbed && self.dataplane.renders_alike(&plan.node, before))
    }

    /// Reads the kernel and repairs what differs, whatever the cause. Another process has changed what differs beside the planned
    /// change; without one, that is not known.
    fn write_everything(
        &mut self,
        plan: &Plan,
        planned: Option<&Change<D>>,
        report: &mut SyncReport,
    ) -> Result<SharedCounts<D>, Error> {
        let mut attempt = 1;
        loop {
            // A process that writes all the time would block us for ever, so the last attempt writes in any case.
            let is_last = attempt == READ_ATTEMPTS;
            match self.try_write_everything(plan, planned, !is_last, report) {
                Err(error) if error.is_outdated() && !is_last => attempt += 1,
                other => return other,
            }
        }
    }

    fn try_write_everything(
        &mut self,
        plan: &Plan,
        planned: Option<&Change<D>>,
        only_if_undisturbed: bool,
        report: &mut SyncReport,
    ) -> Result<SharedCounts<D>, Error> {
        let held = self.kernel.read_sorted()?;
        if let Some(dataplane) = self.kernel.dataplane() {
            self.dataplane = dataplane;
        }
        self.kernel.adopt_clients(plan)?;
        let (wanted, shared) = render_counted(&self.dataplane, plan, |family| self.kernel.serves(family));
        let change = Change::between(held, wanted);
        (report.full, report.services) = (true, plan.services.len());
        let repaired = planned.map_or(0, |planned| change.count_beside(planned));
        self.write(change, plan, only_if_undisturbed, report)?;
        // An attempt that another process disturbed has repaired nothing.
        report.repaired += repaired;
        Ok(shared)
    }

    /// What has to be written if the kernel holds the plan of the last sync.
    fn planned_change(
        &self,
        shared: &mut SharedCounts<D>,
        node_before: &NodePlan,
        plan: &Plan,
        changes: &Changes,
    ) -> Change<D> {
        let (mut before, mut after) = self.node_changes(node_before, &plan.node);
        let mut steps = BTreeMap::new();
        for change in changes.ports() {
            self.render_into(&plan.node, change.before.as_deref(), -1, &mut before, &mut steps);
            self.render_into(&plan.node, change.after.as_deref(), 1, &mut after, &mut steps);
        }
        count_shared::<D>(shared, steps, &mut before, &mut after);
        Change::between(before, after)
    }

    fn node_changes(&self, old: &NodePlan, new: &NodePlan) -> (Objects<D>, Objects<D>) {
        match old == new {
            true => (Objects::new(), Objects::new()),
            false => (self.render_node(old), self.render_node(new)),
        }
    }

    fn render_node(&self, node: &NodePlan) -> Objects<D> {
        render_node(&self.dataplane, node, |family| self.kernel.serves(family))
    }

    /// Writes each family apart. If one fails and the other has Services, the report has the error.
    fn write(
        &mut self,
        change: Change<D>,
        plan: &Plan,
        only_if_undisturbed: bool,
        report: &mut SyncReport,
    ) -> Result<(), Error> {
        report.objects = change.len();
        report.kernel_time = Duration::ZERO;
        let (mut written, mut failed) = (Vec::new(), Vec::new());
        for (family, part) in change.by_family(|key| self.dataplane.family_of(key)) {
            let start = Instant::now();
            let outcome = self.kernel.apply(&part, only_if_undisturbed);
            report.kernel_time += start.elapsed();
            match outcome {
                Ok(()) => written.push(family),
                Err(error) if error.is_outdated() => return Err(error),
                Err(error) => failed.push((family, error)),
            }
        }
        let Some((family, error)) = failed.into_iter().next() else { return Ok(()) };
        let is_useful = plan.services.keys().any(|port| written.contains(&port.family));
        if !is_useful {
            return Err(error);
        }
        report.failure = Some(format!("{family}: {error}"));
        Ok(())
    }

    fn render_into(
        &self,
        node: &NodePlan,
        port: Option<&ServicePlan>,
        step: i64,
        owned: &mut Objects<D>,
        shared: &mut BTreeMap<D::Key, (D::Value, i64)>,
    ) {
        let Some(port) = port.filter(|port| self.kernel.serves(port.key.family)) else { return };
        for (key, value) in self.dataplane.render_service(node, port) {
            if self.dataplane.is_shared(&key) {
                shared.entry(key).or_insert((value, 0)).1 += step;
            } else {
                owned.0.insert(key, value);
            }
        }
    }

    /// Deletes session affinity to endpoints that are gone, as much as one sync may. Returns whether all is done.
    fn forget_clients(&mut self, plan: &Plan) -> Result<bool, Error> {
        let mut read = 0;
        while let Some(key) = self.stale_clients.first().cloned() {
            if read >= CLIENTS_PER_SYNC {
                return Ok(false);
            }
            if let Some(service) = plan.services.get(&key).filter(|service| service.affinity_seconds.is_some()) {
                read += CLIENTS_PER_READ + self.kernel.forget_clients(service)?;
            }
            self.stale_clients.remove(&key);
        }
        Ok(true)
    }
}

impl<D: Dataplane, K: Program<D>> Synchronize for Reconciler<D, K> {
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        Reconciler::sync(self, plan, trust)
    }

    fn verify(&mut self, plan: &Plan) -> Result<Difference, Error> {
        let held = self.kernel.read_sorted()?;
        let adjusted = self.kernel.dataplane();
        Ok(compare(adjusted.as_ref().unwrap_or(&self.dataplane), held, plan, |family| self.kernel.serves(family)))
    }
}

/// How many Services use each shared object.
type SharedCounts<D> = BTreeMap<<D as Dataplane>::Key, u32>;

/// A shared object is added with the first Service that uses it and removed with the last.
fn count_shared<D: Dataplane>(
    shared: &mut SharedCounts<D>,
    steps: BTreeMap<D::Key, (D::Value, i64)>,
    before: &mut Objects<D>,
    after: &mut Objects<D>,
) {
    for (key, (value, step)) in steps {
        let old = i64::from(shared.get(&key).copied().unwrap_or(0));
        let new = old + step;
        match (old, new) {
            (0, 1..) => _ = after.0.insert(key.clone(), value),
            (1.., 0) => _ = before.0.insert(key.clone(), value),
            _ => {}
        }
        match u32::try_from(new) {
            Ok(0) | Err(_) => _ = shared.remove(&key),
            Ok(count) => _ = shared.insert(key, count),
        }
    }
}

/// Everything that the kernel should hold for a plan.
pub fn render<D: Dataplane>(dataplane: &D, plan: &Plan) -> Objects<D> {
    render_counted(dataplane, plan, |_| true).0.into()
}

fn render_node<D: Dataplane>(dataplane: &D, node: &NodePlan, serves: impl Fn(Family) -> bool) -> Objects<D> {
    let mut objects = dataplane.render_node(node);
    if !Family::BOTH.into_iter().all(&serves) {
        objects.0.retain(|key, _| serves(dataplane.family_of(key)));
    }
    objects
}

fn render_counted<D: Dataplane>(
    dataplane: &D,
    plan: &Plan,
    serves: impl Fn(Family) -> bool,
) -> (Sorted<D>, SharedCounts<D>) {
    let mut shared = Vec::new();
    let ports = plan.services.values().filter(|port| serves(port.key.family));
    let services = ports.flat_map(|port| dataplane.render_service(&plan.node, port));
    let noted = services.inspect(|(key, _)| {
        if dataplane.is_shared(key) {
            shared.push(key.clone());
        }
    });
    let objects = render_node(dataplane, &plan.node, &serves).0.into_iter().chain(noted).collect();
    (objects, counts::<D>(shared))
}

/// Counted after rendering: the counts stay, and between the rendered objects, which do not, they would leave holes in the
/// heap.
fn counts<D: Dataplane>(mut keys: Vec<D::Key>) -> SharedCounts<D> {
    keys.sort_unstable();
    keys.chunk_by(|one, next| one == next).map(|same| (same[0].clone(), same.len() as u32)).collect()
}

/// What has to be written to make the kernel hold the plan. Reads only.
pub fn verify<D: Dataplane>(dataplane: &D, kernel: &mut dyn Observe<D>, plan: &Plan) -> Result<Change<D>, Error> {
    let held = kernel.read_sorted()?;
    Ok(Change::between(held, render_counted(dataplane, plan, |family| kernel.serves(family)).0))
}

/// Missing and surplus objects, compared with what a plan renders to.
pub(crate) fn compare<D: Dataplane>(
    dataplane: &D,
    held: Sorted<D>,
    plan: &Plan,
    serves: impl Fn(Family) -> bool,
) -> Difference {
    let wanted = render_counted(dataplane, plan, serves).0;
    let count = wanted.len();
    Difference::new(count, &Change::between(held, wanted))
}
