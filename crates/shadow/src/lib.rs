//! What kube-proxy has programmed on this node, run on packets and compared with the plan.
//!
//! [`read_peer`] reads kube-proxy's rules. [`compare`] probes both sides with the same packets and returns the outcomes that
//! differ. The rules are run, not parsed for meaning: every random branch is followed, and nothing is known about what
//! kube-proxy's chains are for.
#![forbid(unsafe_code)]

mod behaviour;
mod compare;
mod expected;
mod frontends;
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
pub use probes::Client;
pub use report::{Line, Report};
pub use watch::{Look, Shadow};
