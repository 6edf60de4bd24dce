//! Which connections end because endpoints were added. Pure: loads and time come in.
//!
//! A Service port is rebalanced from the time when endpoints are added to its pool until each endpoint has at most
//! [`FACTOR`] times its share, or until [`LONGEST`] has passed. Only connections that have been idle for long enough end, the
//! longest idle first. Clients connect again, and the new connections go to endpoints at random, so that several rounds
//! are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use portolan_kernel::conntrack::{TcpFlow, TcpState};
use portolan_model::Rebalance;
use portolan_plan::{Plan, PortKey, ServicePlan};

use super::load::{pool, shares};
use crate::report::{Changes, PortChange};

/// How much more than its share an endpoint may have.
const FACTOR: f64 = 1.25;
/// How long after an addition connections are ended at most.
const LONGEST: Duration = Duration::from_secs(3600);
/// One round per second ends at most this part of the connections of a Service port, and at least one.
const PART: usize = 10;
/// A round of all Service ports together ends at most this many.
pub(super) const MOST_PER_ROUND: usize = 100;
pub(super) const ROUND: Duration = Duration::from_secs(1);

/// Which Service ports are being rebalanced, and until when.
#[derive(Default)]
pub struct Rebalancer {
    ports: BTreeMap<PortKey, Duration>,
}

impl Rebalancer {
    pub fn follow(&mut self, changes: &Changes, now: Duration) {
        for change in changes.ports() {
            match change {
                PortChange { after: Some(after), .. } if after.open_connections.rebalance == Rebalance::Off => {
                    self.ports.remove(&after.key);
                }
                PortChange { before: Some(before), after: Some(after) } if has_more_endpoints(before, after) => {
                    self.ports.insert(after.key.clone(), now + LONGEST);
                }
                PortChange { before: Some(before), after: None } => _ = self.ports.remove(&before.key),
                _ => {}
            }
        }
    }

    pub fn is_idle(&self) -> bool {
        self.ports.is_empty()
    }

    /// The Service ports of this round, with the time for which a connection must have been idle.
    pub fn round<'a>(&mut self, plan: &'a Plan, now: Duration) -> Vec<(&'a ServicePlan, Duration)> {
        self.ports.retain(|port, until| *until > now && plan.services.contains_key(port));
        let wanted = |port: &PortKey| match plan.services.get(port) {
            Some(service) => match service.open_connections.rebalance {
                Rebalance::Idle(time) => Some((&**service, time)),
                Rebalance::Off => None,
            },
            None => None,
        };
        self.ports.keys().filter_map(wanted).collect()
    }

    /// The loads are within the factor.
    pub fn finish(&mut self, port: &PortKey) {
        self.ports.remove(port);
    }
}

fn has_more_endpoints(before: &ServicePlan, after: &ServicePlan) -> bool {
    let had: BTreeSet<SocketAddr> = pool(before).iter().map(|endpoint| endpoint.socket()).collect();
    !had.is_empty() && pool(after).iter().any(|endpoint| !had.contains(&endpoint.socket()))
}

/// How long connections have been idle, by the time that their entries have left.
#[derive(Clone, Copy, Debug)]
pub struct IdleClock {
    /// What an entry has after a packet.
    pub established: Duration,
    /// What it has instead after data that is not acknowledged, or sent again and again. Below it, idle time cannot be known.
    pub unacknowledged: Duration,
}

impl IdleClock {
    /// `None` for a connection that may carry data.
    pub fn idle(&self, flow: &TcpFlow) -> Option<Duration> {
        let is_judged = flow.state == TcpState::Established
            && flow.is_assured
            && !flow.is_offloaded
            && (flow.timeout_left > self.unacknowledged || self.established <= self.unacknowledged);
        // The time that is left is rounded down.
        is_judged.then(|| self.established.saturating_sub(flow.timeout_left + Duration::from_secs(1)))
    }
}

/// An idle connection that may end.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub flow: TcpFlow,
    pub idle: Duration,
}

/// What one walk has found about a Service port.
#[derive(Default)]
pub(super) struct PortConnections {
    pub(super) open: BTreeMap<SocketAddr, usize>,
    pub(super) idle: BTreeMap<SocketAddr, Vec<Candidate>>,
}

/// Idle connections beyond this are left to the next rounds.
const MOST_IDLE: usize = 10_000;

impl PortConnections {
    /// An open connection, with the time for which it has been idle, if that is long enough.
    pub(super) fn note(&mut self, flow: &TcpFlow, idle: Option<Duration>) {
        let endpoint = flow.flow.reply_source;
        *self.open.entry(endpoint).or_default() += 1;
        let Some(idle) = idle else { return };
        let known = self.idle.entry(endpoint).or_default();
        if known.len() < MOST_IDLE {
            known.push(Candidate { flow: *flow, idle });
        }
    }
}

/// How many connections of each endpoint end in this round, at most `most` of all; `None` if the loads are within the factor.
pub(super) fn quotas(
    service: &ServicePlan,
    open: &BTreeMap<SocketAddr, usize>,
    most: usize,
) -> Option<BTreeMap<SocketAddr, usize>> {
    let shares = shares(pool(service));
    let slots: u32 = shares.values().sum();
    let open = |endpoint: &SocketAddr| open.get(endpoint).copied().unwrap_or(0);
    let total: usize = shares.keys().map(open).sum();
    let excess = |endpoint: &SocketAddr, share: u32| {
        let target = total as f64 * f64::from(share) / f64::from(slots);
        let is_loaded = open(endpoint) as f64 > (target * FACTOR).max(target + 1.0);
        if is_loaded { open(endpoint) - target.ceil() as usize } else { 0 }
    };
    let loaded = shares.iter().map(|(endpoint, share)| (*endpoint, excess(endpoint, *share)));
    let loaded: Vec<(SocketAddr, usize)> = loaded.filter(|(_, excess)| *excess > 0).collect();
    let all: usize = loaded.iter().map(|(_, excess)| excess).sum();
    let mut left = (total / PART).max(1).min(most);
    let round = left;
    let quota = |(endpoint, excess): (SocketAddr, usize)| {
        let part = (round * excess).div_ceil(all).min(excess).min(left);
        left -= part;
        (endpoint, part)
    };
    (all > 0).then(|| loaded.into_iter().map(quota).collect())
}

/// The longest idle connections of each endpoint.
pub(super) fn choose(mut found: PortConnections, quotas: &BTreeMap<SocketAddr, usize>) -> Vec<Candidate> {
    let mut chosen = Vec::new();
    for (endpoint, quota) in quotas {
        let Some(candidates) = found.idle.get_mut(endpoint) else { continue };
        candidates.sort_unstable_by_key(|candidate| std::cmp::Reverse(candidate.idle));
        chosen.extend(candidates.drain(..).take(*quota));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use portolan_kernel::conntrack::{Flow, TcpFlowId};
    use portolan_model::{Family, Protocol, ServiceName, ServicePortName};
    use portolan_plan::Endpoint;

    use super::*;

    const CLOCK: IdleClock =
        IdleClock { established: Duration::from_secs(86_400), unacknowledged: Duration::from_secs(300) };

    fn address(last: u8) -> SocketAddr {
        SocketAddr::new([10, 244, 1, last].into(), 8080)
    }

    fn service(slots: &[u8]) -> ServicePlan {
        let service = ServiceName::new("default", "web");
        let name = ServicePortName { service, port: "".into(), protocol: Protocol::Tcp };
        let endpoint = |last: &u8| Endpoint { address: address(*last).ip(), port: 8080, may_be_here: false };
        ServicePlan {
            cluster: slots.iter().map(endpoint).collect(),
            ..ServicePlan::empty(PortKey { name: Arc::new(name), family: Family::V4 })
        }
    }

    fn flow(endpoint: u8, idle: u64) -> TcpFlow {
        let (client, frontend) = ("10.1.0.1:1000".parse().unwrap(), "10.96.0.1:80".parse().unwrap());
        let reply_source = address(endpoint);
        let flow = Flow {
            protocol: 6,
            original_source: client,
            original_destination: frontend,
            reply_source,
            reply_destination: client,
        };
        let timeout_left = CLOCK.established - Duration::from_secs(idle + 1);
        let (id, state) = (TcpFlowId([0; 4]), TcpState::Established);
        TcpFlow { flow, id, state, is_replied: true, is_assured: true, is_offloaded: false, timeout_left }
    }

    /// So many connections of each endpoint, of which the first ones are idle.
    fn found(loads: &[(u8, usize, usize)]) -> PortConnections {
        let mut found = PortConnections::default();
        for (endpoint, open, idle) in loads {
            for number in 0..*open {
                let time = (number < *idle).then(|| Duration::from_secs(60 + number as u64));
                found.note(&flow(*endpoint, 0), time);
            }
        }
        found
    }

    fn ended(slots: &[u8], loads: &[(u8, usize, usize)], most: usize) -> Option<BTreeMap<u8, usize>> {
        let found = found(loads);
        let quotas = quotas(&service(slots), &found.open, most)?;
        let mut ended = BTreeMap::new();
        for candidate in choose(found, &quotas) {
            let std::net::IpAddr::V4(address) = candidate.flow.flow.reply_source.ip() else { continue };
            *ended.entry(address.octets()[3]).or_default() += 1;
        }
        Some(ended)
    }

    #[test]
    fn loaded_endpoints_end_idle_connections_at_a_bounded_rate() {
        let scaled = [(1, 200, 200), (2, 200, 200), (3, 200, 10)];
        assert_eq!(ended(&[1, 2, 3, 4, 5, 6], &scaled, 100), Some([(1, 20), (2, 20), (3, 10)].into()));
        let few = ended(&[1, 2, 3, 4, 5, 6], &scaled, 9).unwrap();
        assert_eq!(few.values().sum::<usize>(), 9);
        assert_eq!(ended(&[1, 2, 3, 4, 5, 6], &scaled, 0), Some([].into()));
    }

    #[test]
    fn connections_that_carry_data_stay() {
        assert_eq!(ended(&[1, 2], &[(1, 100, 0)], 100), Some([].into()));
    }

    #[test]
    fn loads_within_the_factor_are_even() {
        assert_eq!(ended(&[1, 2], &[(1, 124, 124), (2, 76, 76)], 100), None);
        assert_eq!(ended(&[1, 1, 1, 2], &[(1, 300, 300), (2, 100, 100)], 100), None, "weights count");
        assert_eq!(ended(&[1, 2, 3], &[(1, 1, 1), (2, 1, 1)], 100), None, "fewer connections than endpoints");
        assert_eq!(ended(&[], &[(1, 9, 9)], 100), None);
    }

    /// Data that is not acknowledged lowers the timeout of an entry, which would look like days without a packet.
    #[test]
    fn a_connection_with_data_under_way_is_not_idle() {
        assert_eq!(CLOCK.idle(&flow(1, 90)), Some(Duration::from_secs(90)));
        let under_way = TcpFlow { timeout_left: Duration::from_secs(299), ..flow(1, 0) };
        assert_eq!(CLOCK.idle(&under_way), None);
        assert_eq!(CLOCK.idle(&TcpFlow { state: TcpState::Closing, ..flow(1, 90) }), None);
        assert_eq!(CLOCK.idle(&TcpFlow { is_offloaded: true, ..flow(1, 90) }), None);
        let short = IdleClock { established: Duration::from_secs(100), ..CLOCK };
        assert_eq!(
            short.idle(&TcpFlow { timeout_left: Duration::from_secs(39), ..flow(1, 0) }),
            Some(Duration::from_secs(60))
        );
    }
}
