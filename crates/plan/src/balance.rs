//! How new connections of a Service are shared among its endpoints: the algorithm, and the slots of a pool for it.

use std::net::IpAddr;

use portolan_model::{Algorithm, Balancing, HashOf, client_slot};

use crate::config::{Lacks, Limits};
use crate::endpoint::Endpoint;
use crate::{maglev, weights};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// What the Service or the operator asks for, or the nearest to it that the mode has. `None` leaves it to the mode.
    pub algorithm: Option<Algorithm>,
    /// What is asked for, if the mode lacks it.
    pub lacking: Option<Algorithm>,
    /// What is hashed, if anything is.
    pub hash: HashOf,
    /// The weights of endpoints follow what is observed of them: slow start, or quarantine and its trials.
    pub weights_vary: bool,
    /// The mode selects endpoints by itself: a pool has slots for the sake of weights alone.
    selects_by_itself: bool,
    table_size: Option<u32>,
}

/// How a slot of a pool is selected for a new connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selection {
    /// Each slot is as likely as the others.
    #[default]
    Random,
    /// One slot after the other.
    InTurn,
    /// By [`client_slot`].
    ByHash(HashOf),
}

impl Balance {
    pub(crate) fn decide(of_service: Option<&Balancing>, defaults: &Balancing, limits: Limits) -> Self {
        let none = Balancing::default();
        let wanted = of_service.unwrap_or(&none);
        let asked = wanted.algorithm.or(defaults.algorithm);
        let algorithm = asked.map(|algorithm| nearest(algorithm, limits.lacks));
        Self {
            algorithm,
            lacking: asked.filter(|asked| Some(*asked) != algorithm),
            hash: wanted.hash.or(defaults.hash).unwrap_or_default(),
            weights_vary: weights_vary(&wanted.or(defaults)),
            selects_by_itself: limits.virtual_servers || limits.load_balancers.is_some(),
            table_size: wanted.table_size.or(defaults.table_size).map(|size| size.slots()),
        }
    }

    /// Least connections are a matter of weights, where the mode does not count connections by itself.
    pub fn selection(&self) -> Selection {
        match self.algorithm.unwrap_or_default() {
            Algorithm::Random | Algorithm::LeastConnections => Selection::Random,
            Algorithm::RoundRobin => Selection::InTurn,
            Algorithm::SourceHash | Algorithm::Maglev => Selection::ByHash(self.hash),
        }
    }

    /// The slots of a pool: each endpoint as often as its weight demands. The endpoints are sorted, and no weight is zero.
    pub(crate) fn slots(&self, endpoints: Vec<(Endpoint, u64)>) -> Vec<Endpoint> {
        match self.algorithm {
            Some(Algorithm::Maglev) if !self.selects_by_itself => maglev::table(&endpoints, self.table_size),
            Some(Algorithm::RoundRobin) if !self.selects_by_itself => weights::spread(endpoints),
            _ => weights::slots(endpoints),
        }
    }

    /// The only slot that new connections of this client get, where it is known.
    pub fn slot_of(&self, client: IpAddr, slots: usize) -> Option<usize> {
        let is_known = !self.selects_by_itself && self.selection() == Selection::ByHash(HashOf::Client);
        is_known.then(|| client_slot(client, None, slots as u32) as usize)
    }
}

fn weights_vary(balancing: &Balancing) -> bool {
    balancing.slow_start.is_some_and(|time| !time.is_zero()) || balancing.quarantine == Some(true)
}

fn nearest(asked: Algorithm, lacks: Lacks) -> Algorithm {
    use Algorithm::{LeastConnections, Maglev, Random, RoundRobin, SourceHash};
    let by_nearness: &[Algorithm] = match asked {
        Random => &[Random, RoundRobin],
        RoundRobin => &[RoundRobin, Random],
        SourceHash => &[SourceHash, Maglev, Random, RoundRobin],
        Maglev => &[Maglev, SourceHash, Random, RoundRobin],
        LeastConnections => &[LeastConnections, Random, RoundRobin],
    };
    by_nearness.iter().copied().find(|algorithm| !lacks.contains(*algorithm)).unwrap_or(Random)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(asked: Option<Algorithm>, default: Option<Algorithm>, lacks: Lacks) -> Balance {
        let of = |algorithm| Balancing { algorithm, ..Balancing::default() };
        Balance::decide(asked.map(|it| of(Some(it))).as_ref(), &of(default), Limits { lacks, ..Limits::default() })
    }

    #[test]
    fn a_service_has_precedence_over_the_default() {
        let (maglev, turns) = (Some(Algorithm::Maglev), Some(Algorithm::RoundRobin));
        let none = Lacks::default();
        assert_eq!(balance(None, turns, none).algorithm, turns);
        assert_eq!((balance(maglev, turns, none).algorithm, balance(maglev, turns, none).lacking), (maglev, None));
    }

    /// The kernel is not asked in vain.
    #[test]
    fn what_the_mode_lacks_matters_only_if_an_algorithm_is_asked_for() {
        let unasked = Lacks(|| unreachable!("no algorithm is asked for"));
        let [one, other] = [unasked; 2].map(|lacks| Limits { lacks, ..Limits::default() });
        assert!(one == other && balance(None, None, unasked).algorithm.is_none());
    }

    #[test]
    fn an_algorithm_that_the_mode_lacks_is_replaced_with_the_nearest() {
        let lacks = Lacks(|| &[Algorithm::Maglev, Algorithm::SourceHash]);
        let balance = balance(Some(Algorithm::Maglev), None, lacks);
        assert_eq!((balance.algorithm, balance.lacking), (Some(Algorithm::Random), Some(Algorithm::Maglev)));
        assert_eq!(nearest(Algorithm::Maglev, Lacks(|| &[Algorithm::Maglev])), Algorithm::SourceHash);
        assert_eq!(nearest(Algorithm::Random, Lacks(|| &[Algorithm::Random])), Algorithm::RoundRobin);
    }
}
