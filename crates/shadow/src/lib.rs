//! SHADOW: what kube-proxy has programmed on this node, read as behaviour and held against the plan.
//!
//! [`read_peer`] reads kube-proxy's rules, [`compare`] asks both sides the same questions ("a pod connects to this
//! address: what happens?") and gives the answers that differ. The rules are run, not parsed for meaning: every random
//! branch is followed, and nothing is known about what kube-proxy's chains are for.
#![forbid(unsafe_code)]

mod behaviour;
mod compare;
mod expected;
mod iptables;
mod nftables;
mod peer;
mod probes;
mod report;
mod watch;

pub use behaviour::{Behaviour, Choice};
pub use compare::{Comparison, Difference, compare};
pub use peer::{PeerRules, ReadError, read_peer};
pub use portolan_dataplane::walk::End;
pub use probes::Asker;
pub use report::{Line, Report};
pub use watch::{Look, Shadow};
