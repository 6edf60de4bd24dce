//! Flags that were removed from kube-proxy, but that older command lines still use. They are accepted, most of them
//! without effect.

use crate::fields::Use;
use crate::flag::{Flag, Target, hidden};
use crate::value::Kind::{self, Boolean, Duration, Integer, Text};

const KLOG: Use = Use::None("removed in Kubernetes 1.26: the log is written to standard error");
const PORT_RANGE: Use = Use::None("the kernel assigns the listener ports of userspace mode");
const UDP_TIMEOUT: Use = Use::Works("userspace mode: idle timeout of UDP associations");

const fn removed(name: &'static str, kind: Kind, used: Use) -> Flag {
    match kind {
        Boolean => hidden(name, kind, "false", used, "true"),
        Duration => hidden(name, kind, "0s", used, "250ms"),
        Integer => hidden(name, kind, "0", used, "1"),
        _ => hidden(name, Text, "", used, "x"),
    }
}

pub(crate) const REMOVED: &[Flag] = &[
    Flag { target: Target::Field("portRange"), ..removed("proxy-port-range", Text, PORT_RANGE) },
    hidden("udp-timeout", Duration, "250ms", UDP_TIMEOUT, "5s"),
    removed("cleanup-iptables", Boolean, Use::None("removed: use --cleanup")),
    removed("cleanup-ipvs", Boolean, Use::None("removed: --cleanup removes what every mode left")),
    removed("conntrack-max", Integer, Use::None("removed: use --conntrack-max-per-core and --conntrack-min")),
    removed("resource-container", Text, Use::None("removed: container runtimes do this")),
    removed("boot-id-file", Text, Use::None("removed: never had an effect")),
    removed("machine-id-file", Text, Use::None("removed: never had an effect")),
    removed("experimental-logging-sanitization", Boolean, Use::None("removed: no secrets are logged")),
    removed("add-dir-header", Boolean, KLOG),
    removed("alsologtostderr", Boolean, KLOG),
    removed("log-backtrace-at", Text, KLOG),
    removed("log-dir", Text, KLOG),
    removed("log-file", Text, KLOG),
    removed("log-file-max-size", Text, KLOG),
    removed("logtostderr", Boolean, KLOG),
    removed("one-output", Boolean, KLOG),
    removed("skip-headers", Boolean, KLOG),
    removed("skip-log-headers", Boolean, KLOG),
    removed("stderrthreshold", Text, KLOG),
];
