//! The plan of manifests, without a running daemon.

use std::net::IpAddr;

use portolan_plan::{Plan, PlanConfig, plan};
use portolan_source::{Manifests, Options};

use crate::{host, settings};

/// The plan of manifests on this machine. Problems in them go to standard error; the rest is planned.
pub(crate) fn load(options: Options, config: &PlanConfig, bind_address: Option<IpAddr>) -> anyhow::Result<Plan> {
    settings::require_manifests(&options.paths)?;
    let mut manifests = Manifests::new(options);
    let report = manifests.reload();
    for problem in &report.new_problems {
        eprintln!("portolan: {problem}");
    }
    let mut snapshot = manifests.snapshot();
    host::add_addresses(&mut snapshot, &host::addresses(), bind_address);
    Ok(plan(&snapshot, &Plan::default(), config))
}
