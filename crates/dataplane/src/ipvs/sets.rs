//! The IP sets: they keep the number of iptables rules the same for any number of Services.

use std::fmt;

use portolan_kernel::ipset::SetType;
use portolan_model::{Family, Protocol};

/// The kernel's limit for names of sets. kube-proxy truncates to it.
const LONGEST_NAME: usize = 31;

/// The purpose of a set. All but the last two are kube-proxy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetKind {
    /// Endpoints that may reach themselves through their Service.
    LoopBack,
    ClusterIp,
    ExternalIp,
    ExternalIpLocal,
    LoadBalancer,
    LoadBalancerLocal,
    /// Those with source ranges.
    LoadBalancerFirewall,
    LoadBalancerSourceIp,
    LoadBalancerSourceCidr,
    NodePortTcp,
    NodePortUdp,
    NodePortLocalTcp,
    NodePortLocalUdp,
    NodePortSctp,
    NodePortLocalSctp,
    HealthCheckNodePort,
    /// Every address on the device.
    IpvsIps,
    /// Dropped for all sources: the policy is Local and this node has no endpoint.
    NoLocalEndpoints,
    /// Dropped for external sources only.
    NoLocalOutside,
}

impl SetKind {
    pub(crate) const ALL: [Self; 19] = [
        Self::LoopBack,
        Self::ClusterIp,
        Self::ExternalIp,
        Self::ExternalIpLocal,
        Self::LoadBalancer,
        Self::LoadBalancerLocal,
        Self::LoadBalancerFirewall,
        Self::LoadBalancerSourceIp,
        Self::LoadBalancerSourceCidr,
        Self::NodePortTcp,
        Self::NodePortUdp,
        Self::NodePortLocalTcp,
        Self::NodePortLocalUdp,
        Self::NodePortSctp,
        Self::NodePortLocalSctp,
        Self::HealthCheckNodePort,
        Self::IpvsIps,
        Self::NoLocalEndpoints,
        Self::NoLocalOutside,
    ];

    /// The name without its prefix, which is `KUBE-` for IPv4 and `KUBE-6-` for IPv6.
    fn base_name(self) -> &'static str {
        match self {
            Self::LoopBack => "LOOP-BACK",
            Self::ClusterIp => "CLUSTER-IP",
            Self::ExternalIp => "EXTERNAL-IP",
            Self::ExternalIpLocal => "EXTERNAL-IP-LOCAL",
            Self::LoadBalancer => "LOAD-BALANCER",
            Self::LoadBalancerLocal => "LOAD-BALANCER-LOCAL",
            Self::LoadBalancerFirewall => "LOAD-BALANCER-FW",
            Self::LoadBalancerSourceIp => "LOAD-BALANCER-SOURCE-IP",
            Self::LoadBalancerSourceCidr => "LOAD-BALANCER-SOURCE-CIDR",
            Self::NodePortTcp => "NODE-PORT-TCP",
            Self::NodePortUdp => "NODE-PORT-UDP",
            Self::NodePortLocalTcp => "NODE-PORT-LOCAL-TCP",
            Self::NodePortLocalUdp => "NODE-PORT-LOCAL-UDP",
            Self::NodePortSctp => "NODE-PORT-SCTP-HASH",
            Self::NodePortLocalSctp => "NODE-PORT-LOCAL-SCTP-HASH",
            Self::HealthCheckNodePort => "HEALTH-CHECK-NODE-PORT",
            Self::IpvsIps => "IPVS-IPS",
            Self::NoLocalEndpoints => "NO-LOCAL-ENDPOINTS",
            Self::NoLocalOutside => "NO-LOCAL-OUTSIDE",
        }
    }

    pub(super) fn holds(self) -> SetType {
        match self {
            Self::LoopBack | Self::LoadBalancerSourceIp => SetType::HashIpPortIp,
            Self::LoadBalancerSourceCidr => SetType::HashIpPortNet,
            Self::IpvsIps => SetType::HashIp,
            Self::NodePortTcp | Self::NodePortUdp | Self::NodePortLocalTcp | Self::NodePortLocalUdp => {
                SetType::BitmapPort
            }
            Self::HealthCheckNodePort => SetType::BitmapPort,
            _ => SetType::HashIpPort,
        }
    }

    /// The set of node ports of a protocol: all of them, or those with policy Local.
    pub(super) fn of_node_ports(protocol: Protocol) -> (Self, Self) {
        match protocol {
            Protocol::Tcp => (Self::NodePortTcp, Self::NodePortLocalTcp),
            Protocol::Udp => (Self::NodePortUdp, Self::NodePortLocalUdp),
            Protocol::Sctp => (Self::NodePortSctp, Self::NodePortLocalSctp),
        }
    }
}

/// One set of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetName {
    pub family: Family,
    pub kind: SetKind,
}

impl SetName {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let of = |family| SetKind::ALL.map(|kind| Self { family, kind });
        Family::BOTH.into_iter().flat_map(of)
    }
}

impl fmt::Display for SetName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.family == Family::V4 { "KUBE-" } else { "KUBE-6-" };
        let base = self.kind.base_name();
        let room = base.len().min(LONGEST_NAME - prefix.len());
        write!(formatter, "{prefix}{}", &base[..room])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kube_proxys_and_fit() {
        let name = |family, kind| SetName { family, kind }.to_string();
        assert_eq!(name(Family::V4, SetKind::ClusterIp), "KUBE-CLUSTER-IP");
        assert_eq!(name(Family::V6, SetKind::LoadBalancerSourceCidr), "KUBE-6-LOAD-BALANCER-SOURCE-CID");
        assert_eq!(name(Family::V6, SetKind::NodePortLocalSctp), "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS");
        let mut names: Vec<String> = SetName::all().map(|it| it.to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), SetKind::ALL.len() * 2);
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME));
    }
}
