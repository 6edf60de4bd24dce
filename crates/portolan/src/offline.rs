//! The plan of manifests, without a running daemon.

use std::net::IpAddr;

use anyhow::bail;
use portolan_plan::{Plan, PlanConfig, plan};
use portolan_source::{Manifests, Options};

use crate::{host, settings};

/// The plan of manifests on this machine. Problems in them go to standard error; the rest is planned. A path or file that
/// cannot be read is an error: the answer would be that of other manifests.
pub(crate) fn load(options: Options, config: &PlanConfig, bind_address: Option<IpAddr>) -> anyhow::Result<Plan> {
    settings::require_manifests(&options.paths)?;
    let mut manifests = Manifests::new(options);
    let report = manifests.reload();
    for problem in &report.new_problems {
        eprintln!("portolan: {problem}");
    }
    require_all(&manifests)?;
    let mut snapshot = manifests.snapshot();
    host::add_addresses(&mut snapshot, &host::addresses(), bind_address);
    Ok(plan(&snapshot, &Plan::default(), config))
}

/// An error if a path or file could not be read.
pub(crate) fn require_all(manifests: &Manifests) -> anyhow::Result<()> {
    match manifests.unreadable().first() {
        Some(problem) => bail!("the manifests are not complete: {problem}"),
        None => Ok(()),
    }
}
