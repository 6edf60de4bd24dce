//! How the cluster's DNS is set up: one small YAML file, or the Corefile of a CoreDNS that is to be replaced.
//!
//! Both become a [`DnsDocument`]: words that have been read, but not understood yet.

mod corefile;
mod plugins;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

pub use corefile::from_corefile;

/// Everything may be left out; what that means is said where it is used.
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
    /// Whether addresses are turned into names.
    pub reverse: Option<bool>,
    /// Whether names of the cluster domain that nobody has are asked for upstream.
    pub pass_unknown_names: bool,
    /// The same for addresses.
    pub pass_unknown_addresses: Option<bool>,
    /// Addresses of DNS servers, or files like `/etc/resolv.conf` that name some.
    pub upstreams: Option<Vec<String>>,
    /// `random`, `round_robin` or `sequential`.
    pub upstream_policy: Option<String>,
    pub force_tcp: bool,
    pub max_concurrent: Option<usize>,
    pub stub_domains: BTreeMap<String, Vec<String>>,
    pub cache: CacheDocument,
    /// Lines as in `/etc/hosts`.
    pub hosts: Vec<String>,
    pub hosts_files: Vec<PathBuf>,
    pub hosts_ttl: Option<u32>,
    /// `off`, `pods` or `everybody`.
    pub autopath: Option<String>,
    /// Questions a second that one client may ask.
    pub rate_limit: Option<u32>,
    pub log_queries: bool,
    /// Seconds for which questions are still answered after the program was told to stop.
    pub lameduck: Option<u64>,
    pub health: Option<String>,
    pub ready: Option<String>,
    pub metrics: Option<String>,
}

/// Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CacheDocument {
    pub entries: Option<usize>,
    pub max_ttl: Option<u64>,
    pub max_negative_ttl: Option<u64>,
    pub min_ttl: Option<u64>,
    pub serve_stale: Option<u64>,
}

impl DnsDocument {
    pub fn from_yaml(file: &str, text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_saphyr::from_str(text).map_err(|error| format!("{file}: {error}"))
    }
}
