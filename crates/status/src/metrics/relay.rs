//! The metrics of userspace mode, in which the daemon relays connections itself.

use super::descriptor::{Descriptor, Kind};
use super::registry::{Metric, Registry};
use crate::counters::Relayed;

/// The labels of a Service port.
pub(super) const SERVICE: &[&str] = &["namespace", "service", "port", "protocol", "ip_family"];

/// A metric, and the number that it exports.
type Shown = (Metric, fn(Relayed) -> u64);

#[derive(Debug)]
pub(crate) struct RelayMetrics {
    pub(crate) carried: Metric,
    /// Each by Service port.
    pub(crate) of_services: [Shown; 4],
}

impl RelayMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let mut add = |name, kind, labels, help| registry.register(Descriptor { name, kind, labels, help });
        let carried = add(
            "portolan_relay_connections",
            Kind::Gauge,
            &[],
            "Active connections and UDP associations of the relay, in userspace mode.",
        );
        let mut count = |name, help| add(name, Kind::Counter, SERVICE, help);
        let of_services: [Shown; 4] = [
            (
                count("portolan_relay_dial_errors_total", "Endpoints that refused or did not answer in time."),
                |relayed| relayed.dial_errors,
            ),
            (
                count("portolan_relay_retries_total", "Dials to a further endpoint because one did not answer."),
                |relayed| relayed.retries,
            ),
            (
                count("portolan_relay_failed_connections_total", "Clients rejected because no endpoint answered."),
                |relayed| relayed.failed,
            ),
            (
                count("portolan_relay_waits_total", "How often clients waited because of the connection limit."),
                |relayed| relayed.waits,
            ),
        ];
        Self { carried, of_services }
    }
}
