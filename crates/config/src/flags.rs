//! Every flag of kube-proxy. Most set a field of the file and are described there.

use crate::fields::Use;
use crate::flag::{Flag, alone, hidden, overrides, sets};
use crate::removed::REMOVED;
use crate::value::Kind;

impl Flag {
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().find(|flag| flag.name == name)
    }

    /// Current flags and removed ones.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        FLAGS.iter().chain(REMOVED)
    }
}

/// In the order of `kube-proxy --help`.
pub const FLAGS: &[Flag] = &[
    sets("bind-address", "bindAddress"),
    sets("bind-address-hard-fail", "bindAddressHardFail"),
    alone(
        "cleanup",
        Kind::Boolean,
        "false",
        Use::Works("remove the kernel objects of Portolan and kube-proxy, and exit"),
        "true",
    ),
    sets("cluster-cidr", "clusterCIDR"),
    alone("config", Kind::Text, "", Use::Works("the configuration file; changes are applied at runtime"), "FILE"),
    sets("config-sync-period", "configSyncPeriod"),
    sets("conntrack-max-per-core", "conntrack.maxPerCore"),
    sets("conntrack-min", "conntrack.min"),
    sets("conntrack-tcp-be-liberal", "conntrack.tcpBeLiberal"),
    sets("conntrack-tcp-timeout-close-wait", "conntrack.tcpCloseWaitTimeout"),
    sets("conntrack-tcp-timeout-established", "conntrack.tcpEstablishedTimeout"),
    sets("conntrack-udp-timeout", "conntrack.udpTimeout"),
    sets("conntrack-udp-timeout-stream", "conntrack.udpStreamTimeout"),
    Flag { default: Some(""), ..sets("detect-local-mode", "detectLocalMode") },
    sets("enable-dsr", "winkernel.enableDSR"),
    sets("feature-gates", "featureGates"),
    sets("forward-healthcheck-vip", "winkernel.forwardHealthCheckVip"),
    sets("healthz-bind-address", "healthzBindAddress"),
    overrides("hostname-override", "hostnameOverride"),
    alone(
        "init-only",
        Kind::Boolean,
        "false",
        Use::Works("do the setup that needs full root privileges, and exit; afterwards CAP_NET_ADMIN is enough"),
        "true",
    ),
    sets("iptables-localhost-nodeports", "iptables.localhostNodePorts"),
    sets("iptables-masquerade-bit", "iptables.masqueradeBit"),
    sets("iptables-min-sync-period", "iptables.minSyncPeriod"),
    sets("iptables-sync-period", "iptables.syncPeriod"),
    sets("ipvs-exclude-cidrs", "ipvs.excludeCIDRs"),
    Flag { default: Some("1s"), ..sets("ipvs-min-sync-period", "ipvs.minSyncPeriod") },
    sets("ipvs-scheduler", "ipvs.scheduler"),
    sets("ipvs-strict-arp", "ipvs.strictARP"),
    sets("ipvs-sync-period", "ipvs.syncPeriod"),
    sets("ipvs-tcp-timeout", "ipvs.tcpTimeout"),
    sets("ipvs-tcpfin-timeout", "ipvs.tcpFinTimeout"),
    sets("ipvs-udp-timeout", "ipvs.udpTimeout"),
    sets("kube-api-burst", "clientConnection.burst"),
    sets("kube-api-content-type", "clientConnection.contentType"),
    sets("kube-api-qps", "clientConnection.qps"),
    sets("kubeconfig", "clientConnection.kubeconfig"),
    overrides("log-flush-frequency", "logging.flushFrequency"),
    overrides("log-json-info-buffer-size", "logging.options.json.infoBufferSize"),
    overrides("log-json-split-stream", "logging.options.json.splitStream"),
    overrides("log-text-info-buffer-size", "logging.options.text.infoBufferSize"),
    overrides("log-text-split-stream", "logging.options.text.splitStream"),
    overrides("logging-format", "logging.format"),
    sets("masquerade-all", "iptables.masqueradeAll"),
    alone(
        "master",
        Kind::Text,
        "",
        Use::Works("the address of the API server; overrides the kubeconfig"),
        "https://192.0.2.1",
    ),
    sets("metrics-bind-address", "metricsBindAddress"),
    sets("network-name", "winkernel.networkName"),
    sets("nodeport-addresses", "nodePortAddresses"),
    sets("oom-score-adj", "oomScoreAdj"),
    sets("pod-bridge-interface", "detectLocal.bridgeInterface"),
    sets("pod-interface-name-prefix", "detectLocal.interfaceNamePrefix"),
    sets("profiling", "enableProfiling"),
    sets("proxy-mode", "mode"),
    Flag { default: Some("cbr0"), ..sets("root-hnsendpoint-name", "winkernel.rootHnsEndpointName") },
    sets("show-hidden-metrics-for-version", "showHiddenMetricsForVersion"),
    sets("source-vip", "winkernel.sourceVip"),
    Flag { short: Some('v'), ..overrides("v", "logging.verbosity") },
    alone(
        "version",
        Kind::Text,
        "false",
        Use::Works("print the version and exit; raw prints more; vX.Y.Z has no effect"),
        "true",
    ),
    overrides("vmodule", "logging.vmodule"),
    overrides("windows-service", "windowsRunAsService"),
    alone(
        "write-config-to",
        Kind::Text,
        "",
        Use::Works("write the effective configuration as v1alpha1 YAML, and exit"),
        "FILE",
    ),
    hidden(
        "healthz-port",
        Kind::Integer,
        "10256",
        Use::Works("the port of --healthz-bind-address if that has none; 0 disables the server"),
        "1256",
    ),
    hidden(
        "metrics-port",
        Kind::Integer,
        "10249",
        Use::Works("the port of --metrics-bind-address if that has none; 0 disables the server"),
        "1249",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flag::Target;
    use crate::value::Value;

    #[test]
    fn every_flag_has_a_kind_a_default_and_a_sample_that_differs() {
        for flag in Flag::all() {
            assert!(matches!(flag.target, Target::Alone { .. }) || flag.field().is_some(), "{}", flag.name);
            let sample = Value::parse(flag.kind(), flag.sample()).unwrap_or_else(|it| panic!("{}: {it}", flag.name));
            assert_ne!(flag.default_value(), sample, "{}", flag.name);
        }
    }

    #[test]
    fn every_field_but_a_few_has_a_flag() {
        let without: Vec<&str> = crate::FIELDS
            .iter()
            .map(|field| field.path)
            .filter(|path| Flag::all().all(|flag| flag.field().is_none_or(|it| it.path != *path)))
            .collect();
        let known = [
            "clientConnection.acceptContentTypes",
            "nftables.masqueradeBit",
            "nftables.masqueradeAll",
            "nftables.syncPeriod",
            "nftables.minSyncPeriod",
            // Portolan's own flags for these take effect beside the file.
            "balancing.algorithm",
            "balancing.hash",
            "balancing.maglevTableSize",
            "balancing.slowStart",
            "balancing.quarantine",
            "balancing.connectionsOfRemovedEndpoints",
            "balancing.rebalance",
        ];
        assert_eq!(without, known);
    }
}
