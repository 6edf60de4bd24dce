//! The feature gates of kube-proxy 1.37 that concern proxying.

use std::collections::BTreeMap;

use crate::fields::Use;
use crate::notice::Notice;

pub struct Gate {
    pub name: &'static str,
    pub default: bool,
    pub used: Use,
}

const ALWAYS: Use = Use::None("always enabled");
const CLIENT: Use = Use::None("concerns the API client library of kube-proxy");
const LOG: Use = Use::None("reading the log needs no permission");

const fn gate(name: &'static str, default: bool, used: Use) -> Gate {
    Gate { name, default, used }
}

pub const GATES: &[Gate] = &[
    gate("AllowServiceExternalIPs", true, Use::Works("false: spec.externalIPs are not served")),
    gate("KubeProxyIPVS", true, Use::Works("false: mode ipvs is an error")),
    gate(
        "KubeProxyNFTablesLocalhostNodePorts",
        false,
        Use::None("node ports on 127.0.0.1 follow iptables.localhostNodePorts"),
    ),
    gate("NFTablesNetlink", true, Use::None("netlink is always used")),
    gate("NFTablesProxyMode", true, ALWAYS),
    gate("MultiCIDRServiceAllocator", true, ALWAYS),
    gate("PreferSameTrafficDistribution", true, ALWAYS),
    gate("ProxyTerminatingEndpoints", true, ALWAYS),
    gate("TopologyAwareHints", true, ALWAYS),
    gate("ServiceTrafficDistribution", true, ALWAYS),
    gate("LoadBalancerIPMode", true, ALWAYS),
    gate("KubeProxyDrainingTerminatingNodes", true, ALWAYS),
    gate("MinimizeIPTablesRestore", true, ALWAYS),
    gate("ComponentFlagz", true, ALWAYS),
    gate("ComponentStatusz", true, ALWAYS),
    gate("ComponentSLIs", true, ALWAYS),
    gate("NativeHistograms", true, Use::None("histograms are exposed in the classic format")),
    gate("WatchListClient", true, CLIENT),
    gate("InOrderInformers", true, CLIENT),
    gate("AtomicFIFO", true, CLIENT),
    gate("InformerResourceVersion", true, CLIENT),
    gate("ContextualLogging", true, LOG),
    gate("LoggingAlphaOptions", false, LOG),
    gate("LoggingBetaOptions", true, LOG),
    gate("WinDSR", true, Use::None("Windows only")),
    gate("WinOverlay", true, Use::None("Windows only")),
    gate("AllAlpha", false, Use::None("no alpha gate has an effect here")),
    gate("AllBeta", false, Use::None("no beta gate has an effect here")),
];

/// Whether a gate is enabled, explicitly or by default.
pub fn is_on(gates: &BTreeMap<String, bool>, name: &str) -> bool {
    let default = GATES.iter().find(|gate| gate.name == name).is_some_and(|gate| gate.default);
    gates.get(name).copied().unwrap_or(default)
}

/// Notices for the gates that were set. A gate without effect does not fail the start.
pub(crate) fn notices(gates: &BTreeMap<String, bool>) -> Vec<Notice> {
    gates.iter().filter_map(|(name, value)| notice(name, *value)).collect()
}

fn notice(name: &str, value: bool) -> Option<Notice> {
    match GATES.iter().find(|gate| gate.name == name) {
        None => Some(Notice::warning(format!("feature gate {name} is unknown and has no effect"))),
        Some(gate) if value == gate.default => None,
        Some(Gate { used: Use::Works(_), .. }) => None,
        Some(gate) => Some(Notice::warning(format!("feature gate {name}={value} has no effect: {}", gate.used.text()))),
    }
}
