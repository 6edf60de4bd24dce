//! Compares the plan with what kube-proxy has programmed. Writes nothing.

use std::path::Path;

use anyhow::Context;
use portolan_shadow::{PeerRules, Report, compare, read_peer};

use super::{Offline, show};
use crate::exit::{DIFFERENT, SUCCESS};
use crate::flags::{OutputFlags, ShadowFlags};

pub fn shadow(flags: &ShadowFlags) -> anyhow::Result<u8> {
    let plan = Offline::load(&flags.settings)?.plan;
    show_comparison(&flags.output, &Report::from(&compare(&plan, &peer(flags)?)))
}

/// Exit status 1 if anything differs.
pub(crate) fn show_comparison(output: &OutputFlags, report: &Report) -> anyhow::Result<u8> {
    show(output, report, |report, _| report.to_string())?;
    Ok(if report.agrees() { SUCCESS } else { DIFFERENT })
}

/// From the kernel, or from files: `iptables-save` may not be installed where Portolan runs.
fn peer(flags: &ShadowFlags) -> anyhow::Result<PeerRules> {
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
    match (&flags.iptables_save, &flags.ip6tables_save) {
        (Some(ipv4), Some(ipv6)) => Ok(PeerRules::from_iptables(&read(ipv4)?, &read(ipv6)?)),
        _ => Ok(read_peer()?),
    }
}
