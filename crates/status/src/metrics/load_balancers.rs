//! kube-proxy's metrics of the calls by which load balancers of Windows' virtual switch are programmed. A series exists from the
//! first failure on, as in kube-proxy.

use portolan_model::Family;

use super::descriptor::{Descriptor, Kind};
use super::registry::{Metric, Registry};

/// What a call does to a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadBalancerCall {
    Create,
    Update,
    Delete,
}

#[derive(Debug)]
pub(crate) struct LoadBalancerMetrics([Metric; 3]);

impl LoadBalancerMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let mut add = |name, help| {
            let labels = &["error", "ip_family", "lb_type"];
            registry.register(Descriptor { name, kind: Kind::Counter, labels, help })
        };
        Self([
            add(
                "kubeproxy_sync_proxy_rules_winkernel_lb_create_failures_total",
                "[ALPHA] Cumulative proxy winkernel lb create failures",
            ),
            add(
                "kubeproxy_sync_proxy_rules_winkernel_lb_update_failures_total",
                "[ALPHA] Cumulative proxy winkernel lb update failures",
            ),
            add(
                "kubeproxy_sync_proxy_rules_winkernel_lb_delete_failures_total",
                "[ALPHA] Cumulative proxy winkernel lb delete failures",
            ),
        ])
    }

    pub(super) fn set(&self, call: LoadBalancerCall, family: Family, kind: &str, error: &str, count: u64) {
        self.0[call as usize].set(&[error, &family.to_string(), kind], count as f64);
    }
}
