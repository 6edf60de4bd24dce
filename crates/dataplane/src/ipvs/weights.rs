//! Weights that follow what is observed of endpoints, without a change of anything else.
//!
//! While the kernel replaces the scheduler of a virtual server, the server has none and refuses new connections, for as long as an
//! RCU grace period. So a Service whose weights vary has the scheduler that regards weights all the time. Its usual weight is a
//! high one, so that the destinations beside a new one, or one on trial, are not written again.

use std::net::SocketAddr;

use portolan_kernel::ipvs::Scheduling;
use portolan_plan::{Endpoint, ServicePlan, greatest_common_divisor};

use super::objects::Value;

/// A multiple of every weight that slow start and trials have beside one of a hundred.
const USUAL: u32 = 100;

/// The scheduler that does the same and regards weights.
pub(super) fn regarding(scheduler: &str) -> &str {
    match scheduler {
        "rr" => "wrr",
        "lc" => "wlc",
        other => other,
    }
}

/// Whether endpoints of a pool have different weights, or can get them by what is observed of them.
pub(super) fn matter(service: &ServicePlan, endpoints: &[(Endpoint, u32)]) -> bool {
    service.balance.weights_vary || endpoints.iter().any(|(_, weight)| *weight > 1)
}

/// What the weights are multiplied with. Shares stay exactly the same: without a whole factor, or with other schedulers, of which
/// some make a table of as many places, it is 1.
pub(super) fn factor(scheduling: &Scheduling, endpoints: &[(Endpoint, u32)]) -> u32 {
    let highest = endpoints.iter().map(|(_, weight)| *weight).max().unwrap_or(1);
    let is_proportional = matches!(&*scheduling.scheduler, "wrr" | "wlc");
    if is_proportional && USUAL.is_multiple_of(highest) { USUAL / highest } else { 1 }
}

/// Each destination as often as its share demands, and no more.
pub(super) fn slots<'a>(destinations: impl Iterator<Item = (SocketAddr, &'a Value)>) -> Vec<SocketAddr> {
    let weighted = destinations.filter_map(|(endpoint, value)| match value {
        Value::Weight(weight) => Some((endpoint, u64::from(*weight))),
        _ => None,
    });
    let weighted: Vec<(SocketAddr, u64)> = weighted.collect();
    let divisor = weighted.iter().map(|(_, weight)| *weight).fold(0, greatest_common_divisor).max(1);
    let slots = |(endpoint, weight): &(SocketAddr, u64)| vec![*endpoint; (weight / divisor) as usize];
    weighted.iter().flat_map(slots).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(scheduler: &str, weights: &[u32]) -> u32 {
        let endpoint = Endpoint { address: [10, 244, 1, 2].into(), port: 8080, may_be_here: false };
        let endpoints: Vec<(Endpoint, u32)> = weights.iter().map(|weight| (endpoint, *weight)).collect();
        factor(&Scheduling { scheduler: scheduler.to_owned(), persistence: None, flags: 0 }, &endpoints)
    }

    #[test]
    fn usual_endpoints_have_the_same_weight_beside_any_step_of_a_trial() {
        let trial: [&[u32]; 5] = [&[1, 1], &[100, 100, 1], &[50, 50, 1], &[25, 25, 2], &[1, 1, 1]];
        assert!(trial.iter().all(|weights| factors("wrr", weights) * weights[0] == 100));
    }

    #[test]
    fn shares_are_never_rounded_and_tables_never_stretched() {
        assert_eq!([factors("wlc", &[3, 1]), factors("sh", &[1, 1]), factors("mh", &[1, 1])], [1, 1, 1]);
    }
}
