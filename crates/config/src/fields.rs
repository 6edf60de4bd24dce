//! Every field of `KubeProxyConfiguration`, version v1alpha1: its kind, its default, and what it does here.

use crate::value::{Kind, Value};

#[derive(Clone, Debug)]
pub struct Field {
    pub path: &'static str,
    pub kind: Kind,
    /// As a flag would have it.
    pub default: &'static str,
    /// When the default stands in.
    pub defaulting: Defaulting,
    pub used: Use,
    /// Another value than the default, for tests.
    pub sample: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaulting {
    /// For a field that is absent or null; a zero means zero.
    Absent,
    /// Also for an empty text or a zero.
    Zero,
    /// As `Absent`, and an empty value is not written out.
    Omitted,
}

/// What a field or flag does in Portolan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Works(&'static str),
    /// Accepted, with the reason that it changes nothing.
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

const WINDOWS: Use = NoUse("for Windows");
const ALPHA_LOG: Use = NoUse("the log goes to standard error, unbuffered");

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

/// In the order of the reference of Kubernetes.
#[rustfmt::skip]
pub const FIELDS: &[Field] = &[
    field("featureGates", Gates, "", Omitted, Works("switches single behaviours: AllowServiceExternalIPs and KubeProxyIPVS change something here"), "AllowServiceExternalIPs=false"),
    field("clientConnection.kubeconfig", Text, "", Absent, Works("how to reach the API server; empty: as the pod's service account"), "/etc/kube.conf"),
    field("clientConnection.acceptContentTypes", Text, "", Absent, NoUse("protobuf is asked for, and JSON taken if the server has nothing else"), "application/json"),
    field("clientConnection.contentType", Text, "application/vnd.kubernetes.protobuf", Zero, Works("a type with json in it asks for JSON, anything else for protobuf"), "application/json"),
    field("clientConnection.qps", Number, "5", Zero, Works("requests per second to the API server"), "7.5"),
    field("clientConnection.burst", Integer, "10", Zero, Works("requests to the API server at once"), "20"),
    field("logging.format", Text, "text", Zero, Works("text as klog writes it, or json; text on a terminal is for people"), "json"),
    field("logging.flushFrequency", Duration, "5s", Zero, NoUse("every line is written at once"), "9s"),
    field("logging.verbosity", Integer, "0", Absent, Works("0 normal, 2 every sync, 4 everything"), "4"),
    field("logging.vmodule", Patterns, "", Omitted, Works("another verbosity for source files whose names match a pattern"), "daemon=4"),
    field("logging.options.text.splitStream", Boolean, "false", Omitted, ALPHA_LOG, "true"),
    field("logging.options.text.infoBufferSize", Quantity, "0", Zero, ALPHA_LOG, "1Ki"),
    field("logging.options.json.splitStream", Boolean, "false", Omitted, ALPHA_LOG, "true"),
    field("logging.options.json.infoBufferSize", Quantity, "0", Zero, ALPHA_LOG, "1Ki"),
    field("hostnameOverride", Text, "", Absent, Works("the name of this node; empty: the machine's host name; in lower case"), "node-x"),
    field("bindAddress", Text, "0.0.0.0", Zero, Works("the node's primary address instead of the Node object's; binds nothing; 0.0.0.0 and :: mean the Node object's"), "192.0.2.1"),
    field("healthzBindAddress", Text, "0.0.0.0:10256", Zero, Works("where /healthz and /livez are served; [::]:10256 if bindAddress is IPv6"), "192.0.2.1:1256"),
    field("metricsBindAddress", Text, "127.0.0.1:10249", Zero, Works("where /metrics and the other pages are served; [::1]:10249 if bindAddress is IPv6"), "0.0.0.0:1249"),
    field("bindAddressHardFail", Boolean, "false", Absent, Works("exit if one of these addresses cannot be bound, instead of trying again"), "true"),
    field("enableProfiling", Boolean, "false", Absent, Works("serve /debug pages at the metrics address"), "true"),
    field("showHiddenMetricsForVersion", Text, "", Absent, NoUse("no metric is hidden"), "1.36"),
    field("mode", Text, "", Absent, Works("which mode runs; empty means nftables, and a mode that this machine cannot run becomes nftables, with a warning"), "nftables"),
    field("iptables.masqueradeBit", Integer, "14", Absent, Works("the bit of the packet mark that means masquerade, unless mode is nftables"), "5"),
    field("iptables.masqueradeAll", Boolean, "false", Absent, Works("masquerade everything sent to ClusterIPs, unless mode is nftables"), "true"),
    field("iptables.localhostNodePorts", Boolean, "true", Absent, Works("node ports answer at 127.0.0.1, if mode is iptables or empty and nodePortAddresses includes it"), "false"),
    field("iptables.syncPeriod", Duration, "30s", Zero, Works("how often everything is compared, and the longest wait before a retry, unless mode is nftables or ipvs"), "20s"),
    field("iptables.minSyncPeriod", Duration, "1s", Zero, Works("least time between two writes, unless mode is nftables or ipvs; the default counts in mode iptables only, and means 0s otherwise"), "2s"),
    field("ipvs.syncPeriod", Duration, "30s", Zero, Works("as iptables.syncPeriod, if mode is ipvs"), "20s"),
    field("ipvs.minSyncPeriod", Duration, "0s", Absent, Works("as iptables.minSyncPeriod, if mode is ipvs"), "2s"),
    field("ipvs.scheduler", Text, "", Absent, Works("how virtual servers pick an endpoint, if mode is ipvs; rr if empty, and an error if the kernel does not have it"), "wrr"),
    field("ipvs.excludeCIDRs", List, "", Absent, Works("virtual servers in these ranges are never deleted, if mode is ipvs"), "192.0.2.0/24"),
    field("ipvs.strictARP", Boolean, "false", Absent, Works("sets arp_ignore to 1 and arp_announce to 2, if mode is ipvs"), "true"),
    field("ipvs.tcpTimeout", Duration, "0s", Absent, Works("how long IPVS remembers idle TCP connections, if mode is ipvs; 0s leaves what is set"), "5m"),
    field("ipvs.tcpFinTimeout", Duration, "0s", Absent, Works("the same after a FIN"), "5m"),
    field("ipvs.udpTimeout", Duration, "0s", Absent, Works("the same for UDP"), "5m"),
    field("nftables.masqueradeBit", Integer, "14", Absent, Works("the bit of the packet mark that means masquerade, if mode is nftables"), "6"),
    field("nftables.masqueradeAll", Boolean, "false", Absent, Works("masquerade everything sent to ClusterIPs, if mode is nftables"), "true"),
    field("nftables.syncPeriod", Duration, "30s", Zero, Works("as iptables.syncPeriod, if mode is nftables"), "20s"),
    field("nftables.minSyncPeriod", Duration, "1s", Zero, Works("as iptables.minSyncPeriod, if mode is nftables; the default means 0s here"), "2s"),
    field("winkernel.networkName", Text, "", Absent, WINDOWS, "net"),
    field("winkernel.sourceVip", Text, "", Absent, WINDOWS, "192.0.2.9"),
    field("winkernel.enableDSR", Boolean, "false", Absent, WINDOWS, "true"),
    field("winkernel.rootHnsEndpointName", Text, "", Absent, WINDOWS, "cbr1"),
    field("winkernel.forwardHealthCheckVip", Boolean, "false", Absent, WINDOWS, "true"),
    field("detectLocalMode", Text, "ClusterCIDR", Zero, Works("how traffic of pods is told from other traffic: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix"), "NodeCIDR"),
    field("detectLocal.bridgeInterface", Text, "", Absent, Works("the bridge that pods are on, for BridgeInterface"), "cbr0"),
    field("detectLocal.interfaceNamePrefix", Text, "", Absent, Works("how names of pods' interfaces begin, for InterfaceNamePrefix"), "veth"),
    field("clusterCIDR", Text, "", Absent, Works("the range of all pods, or one per family, comma separated, for ClusterCIDR"), "10.244.0.0/16"),
    field("nodePortAddresses", List, "", Absent, Works("where node ports are served: ranges, or the words primary, localhost, all; empty: primary if mode is nftables, else all"), "192.0.2.0/24"),
    field("oomScoreAdj", Integer, "-999", Absent, Works("how unwilling the kernel is to end this process when memory is short"), "-500"),
    field("conntrack.maxPerCore", Integer, "32768", Absent, Works("connections tracked per core; 0 leaves the kernel's limit, and a larger one is never lowered"), "1000"),
    field("conntrack.min", Integer, "131072", Absent, Works("connections tracked at least, whatever the number of cores"), "2000"),
    field("conntrack.tcpEstablishedTimeout", Duration, "24h", Absent, Works("how long an idle TCP connection is remembered; 0 leaves the kernel's value"), "2h"),
    field("conntrack.tcpCloseWaitTimeout", Duration, "1h", Absent, Works("the same for connections in CLOSE_WAIT"), "2h"),
    field("conntrack.tcpBeLiberal", Boolean, "false", Absent, Works("track TCP packets outside the window"), "true"),
    field("conntrack.udpTimeout", Duration, "0s", Absent, Works("how long an unanswered UDP flow is remembered; 0 leaves the kernel's value"), "30s"),
    field("conntrack.udpStreamTimeout", Duration, "0s", Absent, Works("the same for answered UDP flows"), "3m"),
    field("configSyncPeriod", Duration, "15m", Zero, NoUse("nothing is delivered twice: every change is, and a lost watch is resumed"), "5m"),
    field("portRange", Text, "", Absent, NoUse("the kernel gives free ports to listeners of userspace mode"), "1000-2000"),
    field("windowsRunAsService", Boolean, "false", Omitted, WINDOWS, "true"),
];

/// Fields of older releases, which files still contain. They are known, and change nothing.
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
