//! Calls for load balancers that HNS refused, as kube-proxy's metrics count them.

use std::collections::BTreeMap;

use portolan_hns::{ErrorKind, LoadBalancer, mapping_flags};
use portolan_plan::{FrontendKind, Plan, ServicePlan};

use super::objects::Front;
use super::render;
use crate::mode::{BalancerCall, BalancerFailure};

/// A refusal, as it is noted during the write.
pub(super) struct Refused {
    call: BalancerCall,
    front: Front,
    mapping_flags: u32,
    error: &'static str,
}

impl Refused {
    pub(super) fn new(call: BalancerCall, front: &Front, document: &LoadBalancer, error: ErrorKind) -> Self {
        let flags = document.port_mappings.first().map_or(0, |mapping| mapping.flags);
        Self { call, front: *front, mapping_flags: flags, error: error_label(error) }
    }
}

/// How often calls were refused since the start.
#[derive(Default)]
pub(super) struct Failures(pub(super) BTreeMap<BalancerFailure, u64>);

impl Failures {
    /// Counts refusals. The plans before and after the write know what the load balancers are for.
    pub(super) fn count(&mut self, refused: Vec<Refused>, plans: [Option<&Plan>; 2]) {
        if refused.is_empty() {
            return;
        }
        let kinds: BTreeMap<Front, FrontendKind> = plans.into_iter().flatten().flat_map(fronts).collect();
        for Refused { call, front, mapping_flags, error } in refused {
            let failure =
                BalancerFailure { call, family: front.family, kind: kind(&front, mapping_flags, &kinds), error };
            *self.0.entry(failure).or_default() += 1;
        }
    }
}

fn fronts(plan: &Plan) -> impl Iterator<Item = (Front, FrontendKind)> {
    let each = |service: &ServicePlan| -> Vec<(Front, FrontendKind)> {
        service.frontends.iter().map(|frontend| (render::front(service, frontend), frontend.kind)).collect()
    };
    plan.services.values().flat_map(move |service| each(service))
}

/// A health check has a front end that no Service has, at the address of a load balancer.
fn kind(front: &Front, flags: u32, kinds: &BTreeMap<Front, FrontendKind>) -> &'static str {
    let is_balancer = |(other, kind): (&Front, &FrontendKind)| {
        other.address == front.address && *kind == FrontendKind::LoadBalancerIp
    };
    match kinds.get(front) {
        Some(kind) => label(*kind),
        None if front.address.is_none() => label(FrontendKind::NodePort),
        None if kinds.iter().any(is_balancer) => "healthcheck",
        None if flags & mapping_flags::VIP_EXTERNAL_IP != 0 => label(FrontendKind::ExternalIp),
        None => label(FrontendKind::ClusterIp),
    }
}

fn label(kind: FrontendKind) -> &'static str {
    match kind {
        FrontendKind::ClusterIp => "clusterip",
        FrontendKind::NodePort => "nodeport",
        FrontendKind::ExternalIp => "externalip",
        FrontendKind::LoadBalancerIp => "ingressip",
    }
}

fn error_label(error: ErrorKind) -> &'static str {
    match error {
        ErrorKind::AlreadyExists => "port_already_exists",
        ErrorKind::NetworkNotFound => "network_not_found",
        ErrorKind::NotImplemented => "not_implemented",
        ErrorKind::InvalidAddress => "invalid_ip",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use portolan_model::{Family, Protocol};

    use super::*;

    #[test]
    fn load_balancers_outside_of_the_plan_are_known_by_their_address() {
        let front = |address: Option<&str>, port| Front {
            family: Family::V4,
            protocol: Protocol::Tcp,
            address: address.map(|it| it.parse().unwrap()),
            port,
        };
        let kinds = BTreeMap::from([(front(Some("203.0.113.1"), 80), FrontendKind::LoadBalancerIp)]);
        let kind = |front: Front, flags| kind(&front, flags, &kinds);
        assert_eq!(kind(front(Some("203.0.113.1"), 80), 16), "ingressip");
        assert_eq!(kind(front(Some("203.0.113.1"), 10256), 0), "healthcheck");
        assert_eq!(kind(front(None, 30080), 18), "nodeport");
        assert_eq!(kind(front(Some("203.0.113.2"), 80), 16), "externalip");
        assert_eq!(kind(front(Some("10.96.0.1"), 80), 0), "clusterip");
    }
}
