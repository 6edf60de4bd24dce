//! DECISIONS: what must happen to traffic on this node.
//!
//! Every rule of Service semantics is here, once, for all modes: which endpoints are usable, which addresses lead to
//! them, which sources are masqueraded, what is refused and why. [`plan`] is pure and total, and its cost follows
//! what changed since the previous plan, not the size of the cluster.
#![forbid(unsafe_code)]

mod balance;
mod changed;
mod claims;
mod clients;
mod config;
mod connect;
mod decide;
mod endpoint;
mod frontends;
mod health;
mod maglev;
mod node;
mod open_connections;
mod plan;
mod pools;
mod quarantine;
mod service;
mod topology;
mod trace;
mod verdict;
mod weights;

pub use balance::{Balance, Selection};
pub use claims::{Claim, Claims};
pub use clients::invalidates_affinity;
pub use config::{AddressSelector, DetectLocal, Lacks, Limits, LoadBalancers, PlanConfig};
pub use connect::AtConnect;
pub use endpoint::Endpoint;
pub use health::HealthCheck;
pub use node::{FamilyPlan, LocalDetector, NodePlan, NodePortMatch};
pub use open_connections::OpenConnections;
pub use plan::{Plan, plan};
pub use service::{Conflict, Frontend, FrontendAddress, FrontendKind, PortKey, ServicePlan};
pub use trace::{Candidate, Fate, Packet, Step, Trace, shares, trace};
pub use verdict::{Origin, Pool, Reason, Refusal, Route, Routes, Verdict};
pub use weights::greatest_common_divisor;
