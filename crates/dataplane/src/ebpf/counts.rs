//! Traffic of the rules and of the hooks, added up. The hooks count by Service port and endpoint; the plan knows the frontend
//! that stands for the Service port.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use portolan_kernel::bpf::Map;
use portolan_model::Family;
use portolan_plan::{FrontendAddress, Plan, PortKey, Reason, Refusal, ServicePlan};

use super::codec::{endpoint, endpoint_bytes};
use super::hook_place::HookPlace;
use super::hooks::Hooks;
use super::render::{address_number, service_number};
use crate::Error;
use crate::nft::NftablesKernel;
use crate::traffic::{CountTraffic, Counts, ForgetCounts, Pair, ReadTraffic, Traffic, TrafficSample, Usage};

/// The counters of the first pairs, and of the others.
const TRAFFIC: [&str; 2] = ["first_traffic", "traffic"];
const REFUSALS: &str = "refusals";

/// Reads both, and has idle counters deleted by the thread that syncs.
pub(super) struct Counters {
    traffic: Traffic,
    rules: NftablesKernel,
    hooks: Option<Hooks>,
    services: Services,
    orphans: Orphans,
}

impl Counters {
    pub(super) fn open(place: HookPlace) -> Result<Self, Error> {
        Ok(Self {
            traffic: Traffic::new(),
            rules: NftablesKernel::open()?,
            hooks: Hooks::open_existing(place)?,
            services: Services::default(),
            orphans: Orphans::default(),
        })
    }
}

impl ReadTraffic for Counters {
    fn read(&mut self, plan: &Plan, forget: &mut ForgetCounts<'_>) -> Result<&TrafficSample, Error> {
        self.services.follow(plan);
        if let Some(hooks) = &self.hooks {
            self.orphans.remove(hooks, &self.services)?;
        }
        let (rules, hooks, services) = (&mut self.rules, self.hooks.as_ref(), &self.services);
        self.traffic.read(&mut ReadBoth { rules, hooks, services, forget }, plan)
    }
}

struct ReadBoth<'a, 'b> {
    rules: &'a mut NftablesKernel,
    hooks: Option<&'a Hooks>,
    services: &'a Services,
    forget: &'a mut ForgetCounts<'b>,
}

impl CountTraffic for ReadBoth<'_, '_> {
    fn read_counts(&mut self) -> Result<Counts, Error> {
        let mut counts = self.rules.read_counts()?;
        if let Some(hooks) = self.hooks {
            for name in TRAFFIC {
                add_traffic(hooks.any_map(name)?, self.services, &mut counts)?;
            }
            add_refusals(hooks.any_map(REFUSALS)?, self.services, &mut counts)?;
        }
        Ok(counts)
    }

    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        (self.forget)(pairs)
    }
}

/// The Service ports of a plan by the numbers that the hooks know them by.
#[derive(Default)]
struct Services {
    by_number: HashMap<u64, Arc<ServicePlan>>,
    /// So that only what has changed is hashed.
    numbers: HashMap<PortKey, u64>,
}

impl Services {
    /// Whether a key of the hooks' counters, which starts with the number, belongs to one of these.
    fn has(&self, key: &[u8]) -> bool {
        let number = key.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        let is_address = Family::BOTH.into_iter().any(|family| address_number(family) == number);
        is_address || self.by_number.contains_key(&number)
    }

    fn follow(&mut self, plan: &Plan) {
        self.numbers.retain(|key, _| plan.services.contains_key(key));
        self.by_number.clear();
        for (key, service) in &plan.services {
            let number = *self.numbers.entry(key.clone()).or_insert_with(|| service_number(key));
            self.by_number.insert(number, service.clone());
        }
    }
}

/// Counters of Service ports that the plan does not have: of deleted ones, or of some that are so new that this plan lacks
/// them. They are removed when they are found a second time, or Services that come and go would fill the maps.
#[derive(Default)]
struct Orphans(HashSet<(&'static str, Vec<u8>)>);

impl Orphans {
    fn remove(&mut self, hooks: &Hooks, services: &Services) -> Result<(), Error> {
        let before = std::mem::take(&mut self.0);
        for name in TRAFFIC.into_iter().chain([REFUSALS]) {
            let map = hooks.any_map(name)?;
            for (key, _) in map.entries()?.iter().filter(|(key, _)| !services.has(key)) {
                let orphan = (name, key.to_vec());
                match before.contains(&orphan) {
                    true => _ = map.delete(key)?,
                    false => _ = self.0.insert(orphan),
                }
            }
        }
        Ok(())
    }
}

/// The frontend that stands for the Service port, which is its first: the ClusterIP.
fn pair(service: &ServicePlan, endpoint: SocketAddr) -> Option<Pair> {
    let FrontendAddress::Vip(destination, port) = service.frontends.first()?.address else { return None };
    let protocol = service.protocol();
    Some(Pair { protocol, destination, port, endpoint: endpoint.ip(), endpoint_port: endpoint.port() })
}

fn add_traffic(map: &Map, services: &Services, counts: &mut Counts) -> Result<(), Error> {
    for (key, value) in map.entries()?.iter() {
        let Some((number, bytes)) = key.split_first_chunk() else { continue };
        let service = services.by_number.get(&u64::from_ne_bytes(*number));
        let Some(pair) = service.zip(endpoint(bytes)).and_then(|(service, endpoint)| pair(service, endpoint)) else {
            continue;
        };
        let [connections, sent, received] = totals(value);
        let usage = counts.pairs.entry(pair).or_default();
        usage.connections += connections;
        usage.requests.bytes += sent;
        usage.replies.bytes += received;
    }
    Ok(())
}

fn add_refusals(map: &Map, services: &Services, counts: &mut Counts) -> Result<(), Error> {
    for (key, value) in map.entries()?.iter() {
        let number = key.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        let of_address = Family::BOTH.into_iter().find(|family| address_number(*family) == number);
        let family = of_address.or_else(|| services.by_number.get(&number).map(|service| service.key.family));
        let reason = if of_address.is_some() { Reason::UnknownPort } else { Reason::NoEndpoints };
        if let Some(family) = family {
            let [packets] = totals(value);
            counts.refusals.entry((family, Refusal::Reject(reason))).or_default().packets += packets;
        }
    }
    Ok(())
}

/// The sum over all CPUs of a structure of numbers.
fn totals<const N: usize>(value: &[u8]) -> [u64; N] {
    let mut totals = [0; N];
    for (position, number) in value.chunks_exact(8).enumerate() {
        let number = number.first_chunk().copied().map_or(0, u64::from_ne_bytes);
        totals[position % N] += number;
    }
    totals
}

/// Deletes the hooks' counters of these pairs. Service ports are found by the frontend that stands for them.
pub(super) fn forget(hooks: &Hooks, plan: &Plan, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
    for (pair, _) in pairs {
        let Some(claim) = plan.holder(pair.destination, pair.port, pair.protocol) else { continue };
        let number = service_number(&claim.holder).to_ne_bytes();
        let key = [&number[..], &endpoint_bytes(pair.endpoint())].concat();
        for name in TRAFFIC {
            hooks.any_map(name)?.delete(&key)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_all_cpus_are_added() {
        let value: Vec<u8> = [1u64, 10, 100, 2, 20, 200].into_iter().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(totals(&value), [3, 30, 300]);
        assert_eq!(totals(&value), [333]);
    }
}
