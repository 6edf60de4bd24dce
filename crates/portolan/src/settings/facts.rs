//! The source of Services, slices and Nodes: an API server, or manifests.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, ensure};
use ipnet::IpNet;
use portolan_config::{Document, Given};
use portolan_model::Family;
use portolan_source::cluster::Names;
use portolan_source::{Options, State};

use crate::flags::{FactFlags, ManifestFlags};
use crate::system;

#[derive(Clone, Debug, PartialEq)]
pub enum Facts {
    Manifests(Options),
    Cluster(ClusterSettings),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSettings {
    /// Without this and without `master` the service account of the pod is used.
    pub kubeconfig: Option<PathBuf>,
    pub master: Option<String>,
    pub content_type_json: bool,
    /// Requests per second; negative means without limit.
    pub qps: f32,
    pub burst: u32,
    pub node_name: String,
    /// What is watched for DNS.
    pub names: Names,
}

/// Whether a command may store allocated addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Allocations,
    Nothing,
}

impl Facts {
    /// The facts of the daemon and of offline commands: manifests if given, otherwise the API server.
    pub(super) fn read(
        flags: &ManifestFlags,
        document: &Document,
        given: &Given,
        names: Names,
        keep: Keep,
    ) -> anyhow::Result<Self> {
        let node_name = node_name_of(document)?;
        if !flags.manifests.is_empty() {
            return Ok(Self::Manifests(manifest_options(flags, node_name, keep)?));
        }
        let kubeconfig = Some(document.text("clientConnection.kubeconfig")).filter(|path| !path.is_empty());
        Ok(Self::Cluster(ClusterSettings {
            kubeconfig: kubeconfig.map(PathBuf::from),
            master: given.text("master").map(str::to_owned),
            content_type_json: document.text("clientConnection.contentType").contains("json"),
            qps: document.number("clientConnection.qps") as f32,
            burst: u32::try_from(document.integer("clientConnection.burst")).unwrap_or(0),
            names,
            node_name,
        }))
    }

    pub fn node_name(&self) -> &str {
        match self {
            Self::Manifests(options) => &options.node_name,
            Self::Cluster(cluster) => &cluster.node_name,
        }
    }

    /// How to read the manifests of an offline command. In a cluster, the command shows what they would change on this
    /// node.
    pub(crate) fn manifest_options(&self) -> Options {
        match self {
            Self::Manifests(options) => options.clone(),
            Self::Cluster(cluster) => Options { node_name: cluster.node_name.clone(), ..Options::default() },
        }
    }
}

pub fn source_options(flags: &FactFlags, keep: Keep) -> anyhow::Result<Options> {
    manifest_options(&flags.manifests, node_name(flags.hostname_override.as_deref())?, keep)
}

pub(super) fn manifest_options(flags: &ManifestFlags, node_name: String, keep: Keep) -> anyhow::Result<Options> {
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
        is_read_once: keep == Keep::Nothing,
    })
}

pub(super) fn node_name_of(document: &Document) -> anyhow::Result<String> {
    node_name(Some(document.text("hostnameOverride")).filter(|name| !name.is_empty()))
}

/// As in kubelet: trimmed, and in lower case. The default is the machine's host name.
pub(crate) fn node_name(given: Option<&str>) -> anyhow::Result<String> {
    let name = match given {
        Some(name) => name.to_owned(),
        None => system::host_name().context("reading the machine's host name")?,
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

/// Offline commands need manifests.
pub fn require_manifests(paths: &[PathBuf]) -> anyhow::Result<()> {
    ensure!(!paths.is_empty(), "no manifests: name files or directories with --manifests PATH");
    Ok(())
}
