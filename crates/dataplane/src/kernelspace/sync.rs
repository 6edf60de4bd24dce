//! A sync of the mode, on HNS itself and on one in memory.

use portolan_plan::Plan;

use super::Kernelspace;
use super::failures::Failures;
use super::kernel::HnsKernel;
use crate::{Error, Reconciler, SyncReport, Trust};

/// A sync, with a count of the calls that HNS refuses.
pub(super) fn counted(
    reconciler: &mut Reconciler<Kernelspace, HnsKernel>,
    failures: &mut Failures,
    plan: &Plan,
    trust: Trust,
) -> Result<SyncReport, Error> {
    let before = reconciler.plan().cloned();
    reconciler.kernel_mut().note_node(&plan.node);
    let report = reconciler.sync(plan, trust);
    let refused = std::mem::take(&mut reconciler.kernel_mut().refused);
    failures.count(refused, [before.as_ref(), Some(plan)]);
    report
}
