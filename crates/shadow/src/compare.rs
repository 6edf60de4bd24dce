//! Both sides probed with the same packets, and the outcomes that differ.

use std::collections::HashSet;
use std::net::SocketAddr;

use portolan_model::{Family, Protocol};
use portolan_plan::{FrontendAddress, Packet, Plan, trace};

use portolan_dataplane::walk::End;

use crate::behaviour::Behaviour;
use crate::expected::Expectations;
use crate::peer::PeerRules;
use crate::probes::{Client, Probe, Senders};

/// The outcome of all probes.
#[derive(Debug)]
pub struct Comparison {
    /// kube-proxy's mode.
    pub mode: &'static str,
    /// How many packets were tried.
    pub probes: usize,
    pub differences: Vec<Difference>,
    /// What in kube-proxy's rules was not understood.
    pub unknown: Vec<String>,
}

/// One packet that Portolan and kube-proxy treat differently.
#[derive(Clone, Debug)]
pub struct Difference {
    /// `namespace/name:port`, or what kube-proxy's rules show of it.
    pub service: String,
    pub client: Client,
    pub packet: Packet,
    pub portolan: Behaviour,
    pub kube_proxy: Behaviour,
    /// Why this difference is intended; `None` if it is not.
    pub expected: Option<&'static str>,
    /// What differs, in words.
    pub what: String,
}

impl Comparison {
    pub fn unexpected(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|difference| difference.expected.is_none())
    }
}

/// Probes every address of the plan, and every address that only kube-proxy has, from every kind of client.
pub fn compare(plan: &Plan, peer: &PeerRules) -> Comparison {
    let senders = Senders::new(plan);
    let expectations = Expectations::new(plan, peer.mode);
    let mut count = 0;
    let mut differences = Vec::new();
    let mut try_one = |probe: Probe, service: &str| {
        count += 1;
        differences.extend(probe_both(plan, peer, &expectations, probe, service));
    };
    let mut known: HashSet<(Family, FrontendAddress, Protocol)> = HashSet::new();
    for service in plan.services.values() {
        for frontend in &service.frontends {
            known.insert((service.key.family, frontend.address, service.protocol()));
            let name = service.key.to_string();
            senders.of_frontend(service, frontend).into_iter().for_each(|probe| try_one(probe, &name));
        }
    }
    let mut others = peer.frontends();
    others.sort_by_key(|it| (it.family, it.address, it.protocol));
    for other in others {
        if known.insert((other.family, other.address, other.protocol)) {
            let probes = senders.of_address(other.family, other.address, other.protocol);
            probes.into_iter().for_each(|probe| try_one(probe, &other.service));
        }
    }
    Comparison { mode: peer.mode, probes: count, differences, unknown: peer.unknown.clone() }
}

fn probe_both(
    plan: &Plan,
    peer: &PeerRules,
    expectations: &Expectations<'_>,
    probe: Probe,
    name: &str,
) -> Option<Difference> {
    let trace = trace(plan, &probe.packet);
    let service = trace.service.as_ref().and_then(|key| plan.services.get(key));
    let portolan = Behaviour::planned(&trace.fate, service.and_then(|service| service.affinity_seconds));
    let kube_proxy = peer.behaviour(&plan.node, &probe.packet);
    if portolan.is_like(&kube_proxy) {
        return None;
    }
    let expected = expectations.reason(&probe, service.map(|service| &**service), &portolan, &kube_proxy);
    let what = what_differs(&portolan, &kube_proxy);
    let Probe { client, packet } = probe;
    Some(Difference { service: name.to_owned(), client, packet, portolan, kube_proxy, expected, what })
}

fn what_differs(portolan: &Behaviour, kube_proxy: &Behaviour) -> String {
    let (ours, theirs) = (portolan.endpoints(), kube_proxy.endpoints());
    match (portolan.sole_end(), kube_proxy.sole_end()) {
        (_, Some(End::Unknown)) => "kube-proxy's rules are not understood".to_owned(),
        (_, Some(End::Pass)) => "kube-proxy does not serve this address".to_owned(),
        (Some(End::Pass), _) => "Portolan does not serve this address".to_owned(),
        (Some(End::Reject | End::Drop), _) => "Portolan refuses".to_owned(),
        (_, Some(End::Reject | End::Drop)) => "kube-proxy refuses".to_owned(),
        _ if ours != theirs => endpoints_differ(&ours, &theirs),
        _ if masquerades(portolan) != masquerades(kube_proxy) => "masquerade".to_owned(),
        _ if portolan.affinity != kube_proxy.affinity => "session affinity".to_owned(),
        _ => "how often each endpoint is chosen".to_owned(),
    }
}

fn masquerades(behaviour: &Behaviour) -> Vec<bool> {
    behaviour.choices.iter().map(|choice| choice.masquerade).collect()
}

fn endpoints_differ(ours: &[SocketAddr], theirs: &[SocketAddr]) -> String {
    let only = |side: &str, some: &[SocketAddr], others: &[SocketAddr]| {
        let only: Vec<String> = some.iter().filter(|it| !others.contains(it)).map(ToString::to_string).collect();
        (!only.is_empty()).then(|| format!("only {side}: {}", only.join(" ")))
    };
    let parts: Vec<String> =
        only("Portolan", ours, theirs).into_iter().chain(only("kube-proxy", theirs, ours)).collect();
    format!("endpoints: {}", parts.join("; "))
}
