//! From flags to a configuration that the rest of the program can use as it is.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use ipnet::IpNet;
use portolan_model::Family;
use portolan_plan::{AddressSelector, DetectLocal, PlanConfig};
use portolan_source::{Options, State};

use crate::flags::{DetectLocalMode, FactFlags, ManifestFlags, Mode, TrafficFlags};

/// Whether a command may write down allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Allocations,
    Nothing,
}

pub fn source_options(flags: &FactFlags, keep: Keep) -> anyhow::Result<Options> {
    manifest_options(&flags.manifests, node_name(flags.hostname_override.as_deref())?, keep)
}

pub(crate) fn manifest_options(flags: &ManifestFlags, node_name: String, keep: Keep) -> anyhow::Result<Options> {
    let directory = flags.state_directory.clone();
    Ok(Options {
        paths: flags.manifests.clone(),
        node_name,
        service_ranges: one_per_family("--service-cluster-ip-range", &flags.service_cluster_ip_range)?,
        node_port_range: node_port_range(&flags.service_node_port_range)?,
        state: match keep {
            Keep::Allocations => State::ReadWrite(directory),
            Keep::Nothing => State::ReadOnly(directory),
        },
    })
}

/// As kubelet does it: trimmed, and in lower case. Without a name it is the machine's.
pub(crate) fn node_name(given: Option<&str>) -> anyhow::Result<String> {
    let name = match given {
        Some(name) => name.to_owned(),
        None => std::fs::read_to_string("/proc/sys/kernel/hostname").context("reading the machine's host name")?,
    };
    let name = name.trim().to_lowercase();
    ensure!(!name.is_empty(), "--hostname-override is empty: write the name of this node's Node object");
    Ok(name)
}

fn one_per_family(flag: &str, ranges: &[IpNet]) -> anyhow::Result<Vec<IpNet>> {
    for family in Family::BOTH {
        let count = ranges.iter().filter(|range| Family::of_range(range) == family).count();
        ensure!(count <= 1, "{flag} has {count} {family} ranges: write at most one for each family");
    }
    Ok(ranges.to_vec())
}

fn node_port_range(text: &str) -> anyhow::Result<RangeInclusive<u16>> {
    let advice = || format!("--service-node-port-range {text:?}: write FROM-TO, for example 30000-32767");
    let (first, last) = text.split_once('-').with_context(advice)?;
    let (first, last) = (first.trim().parse().with_context(advice)?, last.trim().parse().with_context(advice)?);
    ensure!(0 < first && first <= last, advice());
    Ok(first..=last)
}

pub fn plan_config(flags: &TrafficFlags) -> anyhow::Result<PlanConfig> {
    let selectors = flags.nodeport_addresses.iter().filter(|text| !text.trim().is_empty());
    Ok(PlanConfig {
        detect_local: detect_local(flags)?,
        masquerade_all: flags.masquerade_all,
        node_port_addresses: selectors.map(|text| address_selector(text.trim())).collect::<Result<_, _>>()?,
        loopback_node_ports: flags.iptables_localhost_nodeports,
        allow_external_ips: true,
        relayed: flags.proxy_mode == Mode::Userspace,
        virtual_servers: flags.proxy_mode == Mode::Ipvs,
    })
}

fn detect_local(flags: &TrafficFlags) -> anyhow::Result<DetectLocal> {
    let needed = |value: &Option<String>, mode: &str, flag: &str| match value.as_deref() {
        Some(name) if is_interface_name(name) => Ok(name.into()),
        Some(name) => bail!("{flag} {name:?} is not the name of an interface (1 to 15 characters)"),
        None => bail!("--detect-local-mode {mode} needs {flag}"),
    };
    Ok(match flags.detect_local_mode {
        DetectLocalMode::ClusterCidr => {
            DetectLocal::ClusterRange(one_per_family("--cluster-cidr", &flags.cluster_cidr)?)
        }
        DetectLocalMode::NodeCidr => DetectLocal::NodeRange,
        DetectLocalMode::BridgeInterface => DetectLocal::BridgeInterface(needed(
            &flags.pod_bridge_interface,
            "BridgeInterface",
            "--pod-bridge-interface",
        )?),
        DetectLocalMode::InterfaceNamePrefix => DetectLocal::InterfacePrefix(needed(
            &flags.pod_interface_name_prefix,
            "InterfaceNamePrefix",
            "--pod-interface-name-prefix",
        )?),
    })
}

fn is_interface_name(name: &str) -> bool {
    let allowed = |it: char| it.is_ascii_graphic() && !matches!(it, '/' | '"' | '*' | '\\');
    (1..=15).contains(&name.len()) && name.chars().all(allowed)
}

fn address_selector(text: &str) -> anyhow::Result<AddressSelector> {
    Ok(match text {
        "primary" => AddressSelector::Primary,
        "localhost" => AddressSelector::Localhost,
        "all" => AddressSelector::All,
        range => AddressSelector::Range(range.parse().with_context(|| {
            format!(
                "--nodeport-addresses {range:?}: write a range such as 192.168.0.0/16, or primary, localhost or all"
            )
        })?),
    })
}

/// Manifests must be named: without them there is nothing to serve.
pub fn require_manifests(paths: &[PathBuf]) -> anyhow::Result<()> {
    ensure!(!paths.is_empty(), "no facts: name files or directories with --manifests PATH");
    Ok(())
}
