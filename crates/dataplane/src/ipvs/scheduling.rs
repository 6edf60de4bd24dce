//! The scheduler of a virtual server: what the Service asks for, and what this kernel has of it.

use portolan_kernel::ipvs::Scheduling;
use portolan_model::{Algorithm, HashOf};
use portolan_plan::{Plan, Pool, Selection, ServicePlan};

use super::{Ipvs, weights};

/// For `mh` and `sh`: the client's port is hashed, too (`IP_VS_SVC_F_SCHED_MH_PORT`, `IP_VS_SVC_F_SCHED_SH_PORT`).
const BY_PORT: u32 = 0x10;
/// For the same: a client whose destination has weight 0, which is draining, gets another one instead of a refusal
/// (`IP_VS_SVC_F_SCHED_MH_FALLBACK`, `IP_VS_SVC_F_SCHED_SH_FALLBACK`). Such a destination keeps its place in the table.
const FALLBACK: u32 = 0x08;

impl Ipvs {
    pub(super) fn scheduling(&self, service: &ServicePlan, is_weighted: bool) -> Scheduling {
        let scheduler = self.without_weights(service);
        let weighted = Some(weights::regarding(scheduler)).filter(|name| is_weighted && self.offers(name));
        let scheduler = weighted.unwrap_or(scheduler);
        let is_hash = matches!(scheduler, "mh" | "sh");
        let flags = if self.is_by_port(service, scheduler) { BY_PORT } else { 0 } | if is_hash { FALLBACK } else { 0 };
        Scheduling { scheduler: scheduler.to_owned(), persistence: service.affinity_seconds, flags }
    }

    /// A warning for each Service that needs a scheduler which this kernel does not have.
    pub fn missing_schedulers(&self, plan: &Plan) -> Vec<String> {
        plan.services.values().filter_map(|service| self.warning(service)).collect()
    }

    fn warning(&self, service: &ServicePlan) -> Option<String> {
        let (port, missing) = (&service.key, self.missing(service)?);
        let scheduler = self.scheduling(service, is_weighted(service)).scheduler;
        Some(format!("{port} needs the IPVS scheduler {missing}, which this kernel does not have: it gets {scheduler}"))
    }

    fn missing<'a>(&'a self, service: &'a ServicePlan) -> Option<&'a str> {
        let is_missing = |name: &&str| !self.offers(name);
        let requested = service.scheduler.as_deref().or_else(|| of_algorithm(service)).filter(is_missing);
        let weighted = Some(weights::regarding(self.without_weights(service))).filter(is_missing);
        requested.or_else(|| weighted.filter(|_| is_weighted(service)))
    }

    fn without_weights<'a>(&'a self, service: &'a ServicePlan) -> &'a str {
        self.named(service).or_else(|| self.of_algorithm(service)).unwrap_or(&self.scheduler)
    }

    fn named<'a>(&self, service: &'a ServicePlan) -> Option<&'a str> {
        service.scheduler.as_deref().filter(|name| self.offers(name))
    }

    fn of_algorithm(&self, service: &ServicePlan) -> Option<&'static str> {
        of_algorithm(service).filter(|name| self.offers(name))
    }

    /// kube-proxy sets this flag for `mh`.
    fn is_by_port(&self, service: &ServicePlan, scheduler: &str) -> bool {
        match self.named(service).is_none() && self.of_algorithm(service).is_some() {
            true => service.balance.selection() == Selection::ByHash(HashOf::ClientAndPort),
            false => scheduler == "mh",
        }
    }

    fn offers(&self, scheduler: &str) -> bool {
        self.offered.as_ref().is_none_or(|offered| offered.contains(scheduler))
    }
}

fn is_weighted(service: &ServicePlan) -> bool {
    [Pool::Cluster, Pool::Local].into_iter().any(|pool| weights::matter(service, &service.weighted(pool)))
}

/// There is none that draws at random: the plan has replaced that with turns.
fn of_algorithm(service: &ServicePlan) -> Option<&'static str> {
    service.balance.algorithm.map(|algorithm| match algorithm {
        Algorithm::Random | Algorithm::RoundRobin => "rr",
        Algorithm::SourceHash => "sh",
        Algorithm::Maglev => "mh",
        Algorithm::LeastConnections => "lc",
    })
}
