//! Every field of `KubeProxyConfiguration`, version v1alpha1: its type, its default, and its effect.

use crate::value::{Kind, Value};

#[derive(Clone, Debug)]
pub struct Field {
    pub path: &'static str,
    pub kind: Kind,
    /// In the format of a flag.
    pub default: &'static str,
    /// When the default applies.
    pub defaulting: Defaulting,
    pub used: Use,
    /// A value that differs from the default, for tests.
    pub sample: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaulting {
    /// If the field is absent or null; a zero is kept.
    Absent,
    /// Also for an empty string or a zero.
    Zero,
    /// As `Absent`, and an empty value is omitted from the output.
    Omitted,
}

/// The effect of a field or flag in Portolan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Works(&'static str),
    /// Accepted without effect, for this reason.
    None(&'static str),
}

impl Use {
    pub fn text(self) -> &'static str {
        match self {
            Self::Works(text) | Self::None(text) => text,
        }
    }
}

impl Field {
    pub fn named(path: &str) -> Option<&'static Self> {
        FIELDS.iter().find(|field| field.path == path)
    }

    pub fn default_value(&self) -> Value {
        Value::parse(self.kind, self.default).expect("a test parses every default")
    }
}

use Defaulting::{Absent, Omitted, Zero};
use Kind::{Boolean, Duration, Gates, Integer, List, Number, Patterns, Quantity, Text};
use Use::{None as NoUse, Works};

const ALPHA_LOG: Use = NoUse("the log is written to standard error, unbuffered");

const fn field(
    path: &'static str,
    kind: Kind,
    default: &'static str,
    defaulting: Defaulting,
    used: Use,
    sample: &'static str,
) -> Field {
    Field { path, kind, default, defaulting, used, sample }
}

/// In the order of the Kubernetes reference.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    field("featureGates", Gates, "", Omitted, Works("feature gates: AllowServiceExternalIPs and KubeProxyIPVS have an effect"), "AllowServiceExternalIPs=false"),
    field("clientConnection.kubeconfig", Text, "", Absent, Works("the kubeconfig for the API server; empty: the service account of the pod"), "/etc/kube.conf"),
    field("clientConnection.acceptContentTypes", Text, "", Absent, NoUse("protobuf is preferred, and JSON is accepted"), "application/json"),
    field("clientConnection.contentType", Text, "application/vnd.kubernetes.protobuf", Zero, Works("a type that contains json selects JSON, anything else protobuf"), "application/json"),
    field("clientConnection.qps", Number, "5", Zero, Works("requests per second to the API server"), "7.5"),
    field("clientConnection.burst", Integer, "10", Zero, Works("burst of requests to the API server"), "20"),
    field("logging.format", Text, "text", Zero, Works("text (klog format), or json; text on a terminal is human-readable"), "json"),
    field("logging.flushFrequency", Duration, "5s", Zero, NoUse("log lines are not buffered"), "9s"),
    field("logging.verbosity", Integer, "0", Absent, Works("0 normal, 2 every sync, 4 everything"), "4"),
    field("logging.vmodule", Patterns, "", Omitted, Works("another verbosity for source files whose names match a pattern"), "daemon=4"),
    field("logging.options.text.splitStream", Boolean, "false", Omitted, ALPHA_LOG, "true"),
    field("logging.options.text.infoBufferSize", Quantity, "0", Zero, ALPHA_LOG, "1Ki"),
    field("logging.options.json.splitStream", Boolean, "false", Omitted, ALPHA_LOG, "true"),
    field("logging.options.json.infoBufferSize", Quantity, "0", Zero, ALPHA_LOG, "1Ki"),
    field("hostnameOverride", Text, "", Absent, Works("the name of this node, in lower case; empty: the host name"), "node-x"),
    field("bindAddress", Text, "0.0.0.0", Zero, Works("overrides the primary address of the Node object; nothing is bound; 0.0.0.0 and :: keep the address of the Node object"), "192.0.2.1"),
    field("healthzBindAddress", Text, "0.0.0.0:10256", Zero, Works("address of /healthz and /livez; [::]:10256 if bindAddress is IPv6"), "192.0.2.1:1256"),
    field("metricsBindAddress", Text, "127.0.0.1:10249", Zero, Works("address of /metrics and the other pages; [::1]:10249 if bindAddress is IPv6"), "0.0.0.0:1249"),
    field("bindAddressHardFail", Boolean, "false", Absent, Works("exit if one of these addresses cannot be bound, instead of retrying"), "true"),
    field("enableProfiling", Boolean, "false", Absent, Works("serve /debug pages on the metrics address"), "true"),
    field("showHiddenMetricsForVersion", Text, "", Absent, NoUse("no metric is hidden"), "1.36"),
    field("mode", Text, "", Absent, Works("the proxy mode: nftables, iptables, ipvs, ebpf or userspace; empty means nftables; a mode that this machine does not support is replaced by nftables, with a warning"), "nftables"),
    field("iptables.masqueradeBit", Integer, "14", Absent, Works("the packet mark bit for masquerading, unless mode is nftables"), "5"),
    field("iptables.masqueradeAll", Boolean, "false", Absent, Works("masquerade all traffic to ClusterIPs, unless mode is nftables"), "true"),
    field("iptables.localhostNodePorts", Boolean, "true", Absent, Works("serve node ports on 127.0.0.1, if mode is iptables or empty and nodePortAddresses includes it"), "false"),
    field("iptables.syncPeriod", Duration, "30s", Zero, Works("interval of full resyncs and maximum backoff of retries, unless mode is nftables or ipvs"), "20s"),
    field("iptables.minSyncPeriod", Duration, "1s", Zero, Works("minimum interval between two syncs, unless mode is nftables or ipvs; the default applies in mode iptables only, and is 0s otherwise"), "2s"),
    field("ipvs.syncPeriod", Duration, "30s", Zero, Works("same as iptables.syncPeriod, if mode is ipvs"), "20s"),
    field("ipvs.minSyncPeriod", Duration, "0s", Absent, Works("same as iptables.minSyncPeriod, if mode is ipvs"), "2s"),
    field("ipvs.scheduler", Text, "", Absent, Works("the IPVS scheduler, if mode is ipvs; rr if empty; an error if the kernel does not have it"), "wrr"),
    field("ipvs.excludeCIDRs", List, "", Absent, Works("virtual servers in these ranges are never deleted, if mode is ipvs"), "192.0.2.0/24"),
    field("ipvs.strictARP", Boolean, "false", Absent, Works("sets arp_ignore to 1 and arp_announce to 2, if mode is ipvs"), "true"),
    field("ipvs.tcpTimeout", Duration, "0s", Absent, Works("IPVS timeout of idle TCP connections, if mode is ipvs; 0s keeps the current value"), "5m"),
    field("ipvs.tcpFinTimeout", Duration, "0s", Absent, Works("same, after a FIN"), "5m"),
    field("ipvs.udpTimeout", Duration, "0s", Absent, Works("same, for UDP"), "5m"),
    field("nftables.masqueradeBit", Integer, "14", Absent, Works("the packet mark bit for masquerading, if mode is nftables"), "6"),
    field("nftables.masqueradeAll", Boolean, "false", Absent, Works("masquerade all traffic to ClusterIPs, if mode is nftables"), "true"),
    field("nftables.syncPeriod", Duration, "30s", Zero, Works("same as iptables.syncPeriod, if mode is nftables"), "20s"),
    field("nftables.minSyncPeriod", Duration, "1s", Zero, Works("same as iptables.minSyncPeriod, if mode is nftables; the default means 0s here"), "2s"),
    field("winkernel.networkName", Text, "", Absent, Works("the HNS network of the pods, if mode is kernelspace; empty: the variable KUBE_NETWORK"), "net"),
    field("winkernel.sourceVip", Text, "", Absent, Works("the source that endpoints see where it is not kept, if mode is kernelspace"), "192.0.2.9"),
    field("winkernel.enableDSR", Boolean, "false", Absent, Works("keep the source of traffic to ClusterIPs, if mode is kernelspace"), "true"),
    field("winkernel.rootHnsEndpointName", Text, "", Absent, Works("the HNS endpoint that leads to the node itself, if mode is kernelspace; empty: cbr0"), "cbr1"),
    field("winkernel.forwardHealthCheckVip", Boolean, "false", Absent, Works("lead health checks at load-balancer IPs to the node itself, if mode is kernelspace"), "true"),
    field("detectLocalMode", Text, "ClusterCIDR", Zero, Works("how pod traffic is detected: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix"), "NodeCIDR"),
    field("detectLocal.bridgeInterface", Text, "", Absent, Works("the bridge of the pods, for BridgeInterface"), "cbr0"),
    field("detectLocal.interfaceNamePrefix", Text, "", Absent, Works("the name prefix of pod interfaces, for InterfaceNamePrefix"), "veth"),
    field("clusterCIDR", Text, "", Absent, Works("the pod range of the cluster, or one per family, comma separated, for ClusterCIDR"), "10.244.0.0/16"),
    field("nodePortAddresses", List, "", Absent, Works("addresses that serve node ports: ranges, or primary, localhost, all; empty: primary if mode is nftables, else all"), "192.0.2.0/24"),
    field("oomScoreAdj", Integer, "-999", Absent, Works("the OOM score adjustment of this process"), "-500"),
    field("conntrack.maxPerCore", Integer, "32768", Absent, Works("maximum of tracked connections per core; 0 keeps the limit of the kernel; a larger limit is never lowered"), "1000"),
    field("conntrack.min", Integer, "131072", Absent, Works("minimum for the maximum of tracked connections, regardless of the number of cores"), "2000"),
    field("conntrack.tcpEstablishedTimeout", Duration, "24h", Absent, Works("conntrack timeout of idle TCP connections; 0 keeps the value of the kernel"), "2h"),
    field("conntrack.tcpCloseWaitTimeout", Duration, "1h", Absent, Works("same, for connections in CLOSE_WAIT"), "2h"),
    field("conntrack.tcpBeLiberal", Boolean, "false", Absent, Works("track TCP packets outside the window"), "true"),
    field("conntrack.udpTimeout", Duration, "0s", Absent, Works("conntrack timeout of unreplied UDP flows; 0 keeps the value of the kernel"), "30s"),
    field("conntrack.udpStreamTimeout", Duration, "0s", Absent, Works("same, for replied UDP flows"), "3m"),
    field("configSyncPeriod", Duration, "15m", Zero, NoUse("watches deliver every change, and a lost watch is resumed"), "5m"),
    field("portRange", Text, "", Absent, NoUse("the kernel assigns the listener ports of userspace mode"), "1000-2000"),
    field("balancing.algorithm", Text, "", Omitted, Works("of Portolan: how new connections are shared among endpoints, as --balancing-algorithm"), "maglev"),
    field("balancing.hash", Text, "", Omitted, Works("of Portolan: what of a client is hashed, as --balancing-hash"), "client-and-port"),
    field("balancing.maglevTableSize", Integer, "0", Omitted, Works("of Portolan: the number of slots of a Maglev table, as --maglev-table-size"), "251"),
    field("balancing.slowStart", Text, "", Omitted, Works("of Portolan: how long the weight of a new endpoint grows, as --slow-start"), "30s"),
    field("balancing.quarantine", Boolean, "false", Omitted, Works("of Portolan: whether endpoints that do not answer get no new connections, as --quarantine"), "true"),
    field("balancing.connectionsOfRemovedEndpoints", Text, "", Omitted, Works("of Portolan: what happens to open connections of endpoints that are gone, as --connections-of-removed-endpoints"), "reset"),
    field("balancing.rebalance", Text, "", Omitted, Works("of Portolan: whether idle connections of loaded endpoints end when endpoints are added, as --rebalance"), "idle=30s"),
    field("windowsRunAsService", Boolean, "false", Omitted, Works("on Windows: the service control manager starts and ends the process"), "true"),
];

/// Fields of older releases that files still contain. They are accepted without effect.
pub(crate) const REMOVED_FIELDS: &[(&str, &str)] = &[
    ("udpIdleTimeout", "use --udp-timeout"),
    ("resourceContainer", "container runtimes do this"),
    ("conntrack.max", "use conntrack.maxPerCore and conntrack.min"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_a_default_and_a_sample_that_differs() {
        for field in FIELDS {
            let default = Value::parse(field.kind, field.default).unwrap_or_else(|it| panic!("{}: {it}", field.path));
            let sample = Value::parse(field.kind, field.sample).unwrap_or_else(|it| panic!("{}: {it}", field.path));
            assert_ne!(default, sample, "{}", field.path);
            assert!(!field.used.text().is_empty(), "{}", field.path);
        }
    }

    #[test]
    fn no_field_is_there_twice() {
        for (index, field) in FIELDS.iter().enumerate() {
            assert!(FIELDS[..index].iter().all(|it| it.path != field.path), "{}", field.path);
        }
    }
}
