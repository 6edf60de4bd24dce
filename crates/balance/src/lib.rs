//! FACTS about endpoints that no object of the API has: how long an endpoint has been ready, whether it answers, how many
//! connections it has.
//!
//! A [`Balancer`] follows the Services that want to be balanced by such facts, and turns them into
//! [`Observed`](portolan_model::Observed), which the plan reads. It is pure: time comes in as the time since the start of the
//! daemon, and connections as a [`Sighting`] of the connection table.
#![forbid(unsafe_code)]

mod answered;
mod balancer;
mod evidence;
mod load;
mod sighting;
mod silence;
mod tracked;
mod warming;

pub use balancer::{Balancer, Verdict};
pub use sighting::{Seen, Sighting, Stage, Watch};
