//! Removal of rules: our own, those of every proxy, or our own once kube-proxy serves again.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::bail;
use portolan_dataplane::modes;
use portolan_dataplane::peers::{self, RemovalError, Report};
use portolan_kernel::IS_LINUX;
use portolan_kernel::local_address::remove_local_addresses;
use serde::Serialize;

use super::show;
use crate::dns::remove_table;
use crate::exit::{FAILURE, SUCCESS};
use crate::flags::{CleanupFlags, OutputFlags};
use crate::loopback::LoopbackRouting;

/// How often to look for kube-proxy's rules, and how often to report the wait.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const REPORT_EVERY: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct WholeAnswer {
    removed: Vec<String>,
    kept: Vec<String>,
    failed: Vec<String>,
}

pub fn cleanup(flags: &CleanupFlags) -> anyhow::Result<u8> {
    if flags.all {
        return cleanup_all(&flags.control.control_socket, &flags.output);
    }
    let routing = LoopbackRouting::beside(&flags.control.control_socket);
    let mut report = Report::default();
    if flags.after_kube_proxy {
        wait_for_kube_proxy(flags.timeout)?;
        routing.forget()?;
    } else {
        restore_loopback(&routing, &mut report);
    }
    report.append(peers::cleanup_own());
    show_report(&flags.output, report, "nothing of Portolan's was programmed\n")
}

/// Removes everything of every mode, ours and kube-proxy's, as `portolan proxy --cleanup` does.
pub fn cleanup_all(control_socket: &Path, output: &OutputFlags) -> anyhow::Result<u8> {
    let mut report = Report::default();
    restore_loopback(&LoopbackRouting::beside(control_socket), &mut report);
    report.append(peers::cleanup_everything());
    show_report(output, report, "nothing of Portolan's or kube-proxy's was programmed\n")
}

/// Before the rules that make it safe go.
fn restore_loopback(routing: &LoopbackRouting, report: &mut Report) {
    match routing.restore() {
        Ok(true) => report.removed.push("the setting route_localnet".to_owned()),
        Ok(false) if routing.is_allowed() => report.kept.push(UNKNOWN_ORIGIN.to_owned()),
        Ok(false) => {}
        Err(error) => report.failed.push(RemovalError::new("setting route_localnet back", format!("{error:#}"))),
    }
}

/// Without a record of the value before, there is nothing to set back: another program may need it.
const UNKNOWN_ORIGIN: &str = "net.ipv4.conf.all.route_localnet=1, because it is not recorded that Portolan set it: without the \
                              rules, other hosts on the link can reach 127.0.0.1; set it to 0 unless another program needs it";

fn show_report(output: &OutputFlags, mut report: Report, nothing: &str) -> anyhow::Result<u8> {
    remove_names(&mut report);
    show(output, &WholeAnswer::from(&report), |_, _| match report.to_string() {
        text if text.is_empty() => nothing.into(),
        text => text,
    })?;
    Ok(if report.is_complete() { SUCCESS } else { FAILURE })
}

/// Removes what the DNS server has added. A failure is reported beside what was removed.
fn remove_names(report: &mut Report) {
    if !IS_LINUX {
        return;
    }
    match remove_local_addresses() {
        Ok(addresses) => {
            report.removed.extend(addresses.iter().map(|address| format!("DNS address {address}")));
        }
        Err(error) => report.failed.push(RemovalError::new("removing the DNS address", error)),
    }
    match remove_table() {
        Ok(true) => report.removed.push("the table that keeps DNS out of connection tracking".to_owned()),
        Ok(false) => {}
        Err(error) => report.failed.push(RemovalError::new("removing the rules for DNS", format!("{error:#}"))),
    }
}

impl From<&Report> for WholeAnswer {
    fn from(report: &Report) -> Self {
        let failed = report.failed.iter().map(ToString::to_string).collect();
        Self { removed: report.removed.clone(), kept: report.kept.clone(), failed }
    }
}

/// Waits until kube-proxy serves, so that there is never a moment without rules.
fn wait_for_kube_proxy(timeout: Duration) -> anyhow::Result<()> {
    if peers::has_kube_proxys_names()? {
        bail!(
            "Portolan's rules on this node have kube-proxy's names, so that the two cannot be distinguished. Nothing was \
             removed. Start kube-proxy in the same mode: it takes the rules over as they are, and nothing needs to be \
             removed. Or first change Portolan to mode {}, whose rules have names of their own",
            modes::default().name()
        );
    }
    let start = Instant::now();
    let mut reported: Option<Instant> = None;
    while !peers::kube_proxy_serves_what_we_serve()? {
        if start.elapsed() >= timeout {
            bail!(
                "kube-proxy has not programmed the Services of this node within {} s, so Portolan's rules stay. Check \
                 that kube-proxy runs here, wait longer with --timeout, or remove them now with `portolan cleanup`",
                timeout.as_secs()
            );
        }
        if reported.is_none_or(|reported| reported.elapsed() >= REPORT_EVERY) {
            eprintln!("waiting for kube-proxy to program its rules ({} s)", start.elapsed().as_secs());
            reported = Some(Instant::now());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
