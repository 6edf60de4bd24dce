//! The plan that manifests lead to, without a running daemon.

use portolan_plan::{Plan, PlanConfig, plan};
use portolan_source::{Manifests, Options};

use crate::{config, host};

/// The plan that manifests lead to on this machine. Problems in them are told; the rest proceeds.
pub(crate) fn load(options: Options, config: &PlanConfig) -> anyhow::Result<Plan> {
    config::require_manifests(&options.paths)?;
    let mut manifests = Manifests::new(options);
    let report = manifests.reload();
    for problem in &report.new_problems {
        eprintln!("portolan: {problem}");
    }
    let mut snapshot = manifests.snapshot();
    host::add_addresses(&mut snapshot, &host::addresses(), None);
    Ok(plan(&snapshot, &Plan::default(), config))
}
