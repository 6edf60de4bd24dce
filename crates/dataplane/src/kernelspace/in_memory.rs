//! The mode on an HNS in memory, with the CNI plugin of the node, and with deaths of the daemon between two calls.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use portolan_hns::{Guid, Habits, MemoryHns, Network};
use portolan_plan::{Endpoint, Plan};

use super::Kernelspace;
use super::failures::Failures;
use super::kernel::HnsKernel;
use super::settings::Settings;
use super::sync::counted;
use crate::mode::{BalancerFailure, Synchronize};
use crate::{Difference, Error, Reconciler, SyncReport, Trust};

/// One sync in so many ends with the death of the daemon, where calls fail.
const DIES_ONE_IN: u64 = 8;
/// The most calls before that.
const LIFE: u64 = 12;

pub struct InMemory {
    hns: MemoryHns,
    network: Guid,
    settings: Settings,
    reconciler: Reconciler<Kernelspace, HnsKernel>,
    local: BTreeSet<IpAddr>,
    dies: bool,
    failures: Failures,
}

impl InMemory {
    pub fn new(settings: Settings, habits: Habits, fails_one_in: u64, seed: u64) -> Self {
        let hns = MemoryHns::failing(habits, fails_one_in, seed);
        let kind = if settings.is_overlay { "Overlay" } else { "L2Bridge" };
        let network = Guid::of(&settings.network);
        let name = settings.network.clone();
        hns.add_network(Network { id: network, name, kind: kind.into(), policies: Vec::new() });
        let reconciler = started(&hns, &settings);
        Self {
            hns,
            network,
            settings,
            reconciler,
            local: BTreeSet::new(),
            dies: fails_one_in > 0,
            failures: Failures::default(),
        }
    }

    /// The service itself, which outlives the daemon.
    pub fn hns(&self) -> &MemoryHns {
        &self.hns
    }

    /// A daemon that finds what its predecessor left.
    pub fn restart(&mut self) {
        self.reconciler = started(&self.hns, &self.settings);
    }

    /// How often HNS refused calls for load balancers.
    pub fn failures(&self) -> &BTreeMap<BalancerFailure, u64> {
        &self.failures.0
    }

    pub fn network(&self) -> Guid {
        self.network
    }

    /// Creates and deletes endpoints as the plugin of this node does. Returns whether any differ.
    fn follow_pods(&mut self, plan: &Plan) -> bool {
        let pools = plan.services.values().flat_map(|service| service.cluster.iter().chain(&service.local));
        let is_pod = |endpoint: &&Endpoint| endpoint.may_be_here;
        let wanted: BTreeSet<IpAddr> = pools.filter(is_pod).map(|endpoint| endpoint.address).collect();
        for address in wanted.difference(&self.local) {
            self.hns.add_local_endpoint(self.network, "pod", *address);
        }
        self.local.difference(&wanted).for_each(|address| self.hns.remove_local_endpoint(*address));
        let differs = wanted != self.local;
        self.local = wanted;
        differs
    }
}

fn started(hns: &MemoryHns, settings: &Settings) -> Reconciler<Kernelspace, HnsKernel> {
    let kernel = HnsKernel::new(Box::new(hns.clone()), settings.clone());
    Reconciler::new(Kernelspace { settings: settings.clone() }, kernel)
}

impl Synchronize for InMemory {
    /// The watch of a running daemon reports new endpoints, and a sync then reads everything.
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        let trust = if self.follow_pods(plan) { Trust::Nothing } else { trust };
        if self.dies && self.hns.random(DIES_ONE_IN) == 0 {
            self.hns.die_after(self.hns.random(LIFE));
        }
        let report = counted(&mut self.reconciler, &mut self.failures, plan, trust);
        if self.hns.revive() {
            self.restart();
        }
        report
    }

    fn verify(&mut self, plan: &Plan) -> Result<Difference, Error> {
        self.reconciler.kernel_mut().note_node(&plan.node);
        Synchronize::verify(&mut self.reconciler, plan)
    }
}
