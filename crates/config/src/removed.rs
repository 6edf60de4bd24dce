//! Flags that were removed from kube-proxy, but that older command lines still use. They are accepted, most of them
//! without effect.

use crate::fields::Use;
use crate::flags::{Flag, Target, hidden};
use crate::value::Kind::{self, Boolean, Duration, Integer, Text};

const KLOG: Use = Use::None("removed in Kubernetes 1.26: the log is written to standard error");
const PORT_RANGE: Use = Use::None("the kernel assigns the listener ports of userspace mode");
const UDP_TIMEOUT: Use = Use::Works("userspace mode: idle timeout of UDP associations");

const fn gone(name: &'static str, kind: Kind, used: Use) -> Flag {
    match kind {
        Boolean => hidden(name, kind, "false", used, "true"),
        Duration => hidden(name, kind, "0s", used, "250ms"),
        Integer => hidden(name, kind, "0", used, "1"),
        _ => hidden(name, Text, "", used, "x"),
    }
}

pub(crate) const REMOVED: &[Flag] = &[
    Flag { target: Target::Field("portRange"), ..gone("proxy-port-range", Text, PORT_RANGE) },
    hidden("udp-timeout", Duration, "250ms", UDP_TIMEOUT, "5s"),
    gone("cleanup-iptables", Boolean, Use::None("removed: use --cleanup")),
    gone("cleanup-ipvs", Boolean, Use::None("removed: --cleanup removes what every mode left")),
    gone("conntrack-max", Integer, Use::None("removed: use --conntrack-max-per-core and --conntrack-min")),
    gone("resource-container", Text, Use::None("removed: container runtimes do this")),
    gone("boot-id-file", Text, Use::None("removed: never had an effect")),
    gone("machine-id-file", Text, Use::None("removed: never had an effect")),
    gone("experimental-logging-sanitization", Boolean, Use::None("removed: no secrets are logged")),
    gone("add-dir-header", Boolean, KLOG),
    gone("alsologtostderr", Boolean, KLOG),
    gone("log-backtrace-at", Text, KLOG),
    gone("log-dir", Text, KLOG),
    gone("log-file", Text, KLOG),
    gone("log-file-max-size", Text, KLOG),
    gone("logtostderr", Boolean, KLOG),
    gone("one-output", Boolean, KLOG),
    gone("skip-headers", Boolean, KLOG),
    gone("skip-log-headers", Boolean, KLOG),
    gone("stderrthreshold", Text, KLOG),
];
