//! The configuration of cluster DNS: one small YAML file, or the Corefile of the CoreDNS that is replaced.
//!
//! Both are read into a [`DnsDocument`]: plain values that are validated later.

mod acl;
mod block;
mod corefile;
mod directive;
mod forward;
mod plugins;
mod reader;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

pub use acl::{AclDocument, AclRuleDocument};
pub use corefile::from_corefile;

/// Every field is optional; defaults are applied where the values are used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DnsDocument {
    /// `ADDRESS:PORT`, `:PORT` or `ADDRESS`.
    pub listen: Vec<String>,
    pub cluster_domains: Vec<String>,
    pub ttl: Option<u32>,
    /// `disabled`, `insecure` or `verified`.
    pub pods: Option<String>,
    pub ignore_empty_service: bool,
    /// Whether PTR queries are answered.
    pub reverse: Option<bool>,
    /// The reverse zones in which they are; both, if there are none.
    pub reverse_zones: Vec<String>,
    /// The namespaces whose names are served; all, if there are none.
    pub namespaces: Vec<String>,
    pub acl: Vec<AclDocument>,
    /// Whether unknown names of the cluster domain are forwarded upstream.
    pub pass_unknown_names: bool,
    /// The same for addresses.
    pub pass_unknown_addresses: Option<bool>,
    /// Addresses of upstream DNS servers, or files in the format of `/etc/resolv.conf`.
    pub upstreams: Option<Vec<String>>,
    /// `random`, `round_robin` or `sequential`.
    pub upstream_policy: Option<String>,
    pub force_tcp: bool,
    pub max_concurrent: Option<usize>,
    /// Without servers, names below the domain are not forwarded.
    pub stub_domains: BTreeMap<String, Vec<String>>,
    pub cache: CacheDocument,
    /// Lines in the format of `/etc/hosts`.
    pub hosts: Vec<String>,
    pub hosts_files: Vec<PathBuf>,
    pub hosts_ttl: Option<u32>,
    /// `off`, `pods` or `everybody`.
    pub autopath: Option<String>,
    /// Queries per second that one client may send.
    pub rate_limit: Option<u32>,
    pub log_queries: bool,
    /// Seconds for which queries are still answered after a termination signal.
    pub lameduck: Option<u64>,
    pub health: Option<String>,
    pub ready: Option<String>,
    pub metrics: Option<String>,
}

/// Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CacheDocument {
    /// Answers with records.
    pub entries: Option<usize>,
    /// Negative answers.
    pub negative_entries: Option<usize>,
    /// The memory of all answers.
    pub max_bytes: Option<usize>,
    pub max_ttl: Option<u64>,
    pub max_negative_ttl: Option<u64>,
    pub min_ttl: Option<u64>,
    pub serve_stale: Option<u64>,
}

impl DnsDocument {
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, String> {
        let document = portolan_yaml::read_as(text);
        document.map_err(|error| format!("{file}: {error}"))
    }
}
