//! Taking rules away: our own, everybody's, or our own once kube-proxy serves again.

use std::time::{Duration, Instant};

use anyhow::bail;
use portolan_dataplane::peers::{self, Report, Trouble};
use portolan_kernel::local_address::remove_local_addresses;
use serde::Serialize;

use super::{FAILURE, SUCCESS, show};
use crate::dns::remove_table;
use crate::flags::{CleanupFlags, OutputFlags};

/// How often it is looked whether kube-proxy serves, and how often it is said that it does not.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const TELL_EVERY: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct WholeAnswer {
    removed: Vec<String>,
    kept: Vec<String>,
    failed: Vec<String>,
}

pub fn cleanup(flags: &CleanupFlags) -> anyhow::Result<u8> {
    if flags.all {
        return cleanup_all(&flags.output);
    }
    if flags.after_kube_proxy {
        wait_for_kube_proxy(flags.timeout)?;
    }
    show_report(&flags.output, peers::cleanup_own(), "nothing of Portolan's was programmed\n")
}

/// Everything of every mode, ours and kube-proxy's; also what `portolan proxy --cleanup` does.
pub fn cleanup_all(output: &OutputFlags) -> anyhow::Result<u8> {
    show_report(output, peers::cleanup_everything(), "nothing of Portolan's or kube-proxy's was programmed\n")
}

fn show_report(output: &OutputFlags, mut report: Report, nothing: &str) -> anyhow::Result<u8> {
    remove_names(&mut report);
    show(output, &WholeAnswer::from(&report), |_, _| match report.to_string() {
        text if text.is_empty() => nothing.into(),
        text => text,
    })?;
    Ok(if report.is_complete() { SUCCESS } else { FAILURE })
}

/// What serving names has left. What fails is told beside what was removed before.
fn remove_names(report: &mut Report) {
    match remove_local_addresses() {
        Ok(addresses) => {
            report.removed.extend(addresses.iter().map(|address| format!("the address {address} of names")));
        }
        Err(error) => report.failed.push(Trouble::new("removing the address at which names were served", error)),
    }
    match remove_table() {
        Ok(true) => report.removed.push("the table that keeps DNS out of connection tracking".to_owned()),
        Ok(false) => {}
        Err(error) => report.failed.push(Trouble::new("removing the rules for DNS", format!("{error:#}"))),
    }
}

impl From<&Report> for WholeAnswer {
    fn from(report: &Report) -> Self {
        let failed = report.failed.iter().map(ToString::to_string).collect();
        Self { removed: report.removed.clone(), kept: report.kept.clone(), failed }
    }
}

/// Returns when both are programmed, so that there is no moment without rules.
fn wait_for_kube_proxy(timeout: Duration) -> anyhow::Result<()> {
    if peers::serves_by_iptables()? {
        bail!(
            "Portolan is programmed here in a mode whose chains have kube-proxy's names, so that nobody can tell \
             when kube-proxy serves. Nothing was removed. Change Portolan to nftables mode first, or start kube-proxy in \
             iptables mode: it takes the chains over as they are, and nothing needs to be removed"
        );
    }
    let start = Instant::now();
    let mut told: Option<Instant> = None;
    while !peers::kube_proxy_serves_what_we_serve()? {
        if start.elapsed() >= timeout {
            bail!(
                "kube-proxy has not programmed the Services of this node within {} s, so Portolan's rules stay. Look \
                 whether kube-proxy runs here; wait longer with --timeout; or remove them now with `portolan cleanup`",
                timeout.as_secs()
            );
        }
        if told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            eprintln!("waiting for kube-proxy to program its rules ({} s)", start.elapsed().as_secs());
            told = Some(Instant::now());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
