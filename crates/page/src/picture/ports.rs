//! Frontends, routes and pools of a Service port.

use portolan_model::Service;
use portolan_plan::{Frontend, FrontendAddress, FrontendKind, Origin, Pool, Refusal, Route, ServicePlan, Verdict};

use super::behind::{Behind, ObjectName};
use super::parts::{FrontendAnswer, PoolAnswer, RouteAnswer, ServiceAnswer, origin_name};
use crate::rows::policy;

pub(super) struct Context<'a> {
    pub(super) service: &'a Service,
    pub(super) port: &'a ServicePlan,
    /// Of the port, in `spec.ports`.
    pub(super) index: usize,
    pub(super) id: &'a str,
}

/// The pools of a port, with their ids.
pub(super) type Pools = Vec<(Pool, String)>;

impl Context<'_> {
    fn object(&self) -> ObjectName {
        ObjectName::new("Service", &self.service.name.namespace, &self.service.name.name)
    }

    fn field(&self, field: &str, value: Option<String>) -> Behind {
        Behind::field(self.object(), field, value)
    }

    /// Pools that a route uses, or that have endpoints.
    pub(super) fn add_pools(&self, answer: &mut ServiceAnswer) -> Pools {
        let is_used = |pool: &Pool| {
            !self.port.pool(*pool).is_empty() || self.port.frontends.iter().any(|it| it.routes.use_pool(*pool))
        };
        let mut pools = Vec::new();
        for pool in [Pool::Cluster, Pool::Local].into_iter().filter(is_used) {
            let id = format!("pool:{}", answer.pools.len());
            answer.pools.push(self.pool(pool, &id));
            pools.push((pool, id));
        }
        pools
    }

    fn pool(&self, pool: Pool, id: &str) -> PoolAnswer {
        let (words, policy) = match pool {
            Pool::Cluster => ("all usable endpoints of the cluster", None),
            Pool::Local => ("the usable endpoints of this node", Some("spec.externalTrafficPolicy")),
        };
        let target = self.field(&format!("spec.ports[{}].targetPort", self.index), None);
        let policy = policy.map(|field| self.field(field, Some("Local".into())));
        PoolAnswer {
            id: id.to_owned(),
            port: self.id.to_owned(),
            kind: pool.to_string(),
            slots: self.port.pool(pool).len(),
            words: words.into(),
            behind: std::iter::once(target).chain(policy).collect(),
        }
    }

    pub(super) fn add_frontends(&self, pools: &Pools, answer: &mut ServiceAnswer) {
        for frontend in &self.port.frontends {
            let id = format!("frontend:{}", answer.frontends.len());
            for origin in Origin::ALL {
                let route = self.route(frontend, origin, pools, &id, answer.routes.len());
                answer.routes.push(route);
            }
            answer.frontends.push(self.frontend(frontend, id));
        }
    }

    fn frontend(&self, frontend: &Frontend, id: String) -> FrontendAnswer {
        let port = self.field(&format!("spec.ports[{}].port", self.index), None);
        let behind = match (frontend.kind, frontend.address) {
            (FrontendKind::NodePort, FrontendAddress::NodePort(number)) => {
                vec![self.field(&format!("spec.ports[{}].nodePort", self.index), Some(number.to_string()))]
            }
            (kind, FrontendAddress::Vip(address, _)) => {
                let path = if kind == FrontendKind::ClusterIp { "spec" } else { kind.field() };
                let address = address.to_string();
                let whole = Behind::text(self.object(), path, kind.field(), &address);
                vec![whole, port]
            }
            (kind, _) => vec![self.field(kind.field(), None), port],
        };
        FrontendAnswer {
            id,
            port: self.id.to_owned(),
            kind: frontend.kind.to_string(),
            address: frontend.address.to_string(),
            sources: frontend.sources.as_ref().map(|ranges| ranges.iter().map(ToString::to_string).collect()),
            behind,
        }
    }

    fn route(&self, frontend: &Frontend, origin: Origin, pools: &Pools, id: &str, number: usize) -> RouteAnswer {
        let route = frontend.routes.from(origin);
        let (verdict, reason) = match route.verdict {
            Verdict::Forward(_) => ("forward", None),
            Verdict::Refuse(Refusal::Reject(reason)) => ("reject", Some(reason)),
            Verdict::Refuse(Refusal::Drop(reason)) => ("drop", Some(reason)),
        };
        let pool = |pool| pools.iter().find(|(it, _)| *it == pool).map(|(_, id)| id.clone());
        RouteAnswer {
            id: format!("route:{number}"),
            frontend: id.to_owned(),
            origin: origin_name(origin),
            verdict,
            pool: if let Verdict::Forward(it) = route.verdict { pool(it) } else { None },
            masquerade: route.masquerade,
            reason: reason.map(|reason| reason.to_string()),
            words: words(route),
            behind: self.behind_route(frontend, route),
        }
    }

    fn behind_route(&self, frontend: &Frontend, route: Route) -> Vec<Behind> {
        let service = self.service;
        let mut behind = vec![match frontend.kind {
            FrontendKind::ClusterIp => {
                self.field("spec.internalTrafficPolicy", Some(policy(service.internal_policy).into()))
            }
            _ => self.field("spec.externalTrafficPolicy", Some(policy(service.external_policy).into())),
        }];
        if let Some(sources) = &frontend.sources {
            let ranges: Vec<String> = sources.iter().map(ToString::to_string).collect();
            behind.push(self.field("spec.loadBalancerSourceRanges", Some(ranges.join(", "))));
        }
        if let Some(seconds) = service.affinity_seconds {
            behind.push(self.field("spec.sessionAffinity", Some(format!("ClientIP, {seconds} s"))));
        }
        if route.masquerade {
            behind.push(Behind::setting("--cluster-cidr, --masquerade-all", "only pods keep their address"));
        }
        behind
    }
}

fn words(route: Route) -> String {
    match route.verdict {
        Verdict::Forward(pool) if route.masquerade => {
            format!("to the {pool} pool, with an address of the node as the source (masquerade)")
        }
        Verdict::Forward(pool) => format!("to the {pool} pool, the source address is kept"),
        Verdict::Refuse(Refusal::Reject(reason)) => format!("rejected: {}", reason.in_words()),
        Verdict::Refuse(Refusal::Drop(reason)) => format!("dropped: {}", reason.in_words()),
    }
}
