//! Fuzz targets: functions that accept any bytes and panic only for a bug.
//!
//! The test program of this crate replays the corpora and mutates them for a few seconds. `make fuzz` runs the same
//! functions under libFuzzer, guided by coverage, from the package in `fuzz/`.
#![forbid(unsafe_code)]

mod cluster;
mod dice;
mod foreign;
mod kernel;
mod names;
mod objects;
mod rules;
mod settings;
mod sockets;

/// One function that accepts any bytes.
pub type Target = fn(&[u8]);

/// All targets. The corpus of each is the folder of its name in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("dns-query", names::query),
    ("dns-reply", names::reply),
    ("corefile", settings::corefile),
    ("dns-configuration", settings::dns_configuration),
    ("kube-proxy-configuration", settings::kube_proxy_configuration),
    ("kubeconfig", portolan_source::fuzz::kubeconfig),
    ("manifests", objects::manifests),
    ("watch-protobuf", portolan_source::fuzz::watch_protobuf),
    ("watch-json", portolan_source::fuzz::watch_json),
    ("remote-command", portolan_source::fuzz::remote_command),
    ("netlink-nf-tables", kernel::nf_tables),
    ("netlink-ip-sets", portolan_kernel::fuzz::decode_ip_sets),
    ("netlink-ipvs", portolan_kernel::fuzz::decode_ipvs),
    ("netlink-conntrack", portolan_kernel::fuzz::decode_conntrack),
    ("netlink-route", portolan_kernel::fuzz::decode_route),
    ("iptables-save", kernel::iptables_save),
    ("control", sockets::control),
    ("handover", sockets::handover),
    ("rules", rules::rules),
    ("foreign-rules", foreign::foreign_rules),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
