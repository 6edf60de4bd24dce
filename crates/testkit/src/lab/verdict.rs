//! Compares outcomes with expectations, as text. Pure: outcomes are arguments.

use std::net::{IpAddr, SocketAddr};

use super::Outcome;
use crate::packet::Expected;
use crate::topology;

/// Whether every outcome matches the packet's fate; the error has both. Any of several endpoints may answer, also
/// always the same one.
pub fn check(expected: &Expected, source: IpAddr, outcomes: &[Outcome]) -> Result<(), String> {
    if outcomes.is_empty() {
        return Err("no packet was sent".to_owned());
    }
    outcomes.iter().try_for_each(|outcome| check_one(expected, source, outcome))
}

fn check_one(expected: &Expected, source: IpAddr, outcome: &Outcome) -> Result<(), String> {
    match (expected, outcome) {
        (Expected::Forward { endpoints, masquerade, .. }, Outcome::Answered { seen_source, endpoint, .. })
            if endpoints.contains(endpoint) =>
        {
            check_source(*masquerade, source, *seen_source)
        }
        (Expected::Pass, Outcome::Answered { seen_source, .. }) => check_source(false, source, *seen_source),
        (Expected::Reject(_), Outcome::Refused) | (Expected::Drop(_) | Expected::Pass, Outcome::TimedOut) => Ok(()),
        _ => Err(format!("expected {}, but {}", in_words(expected), happened(outcome))),
    }
}

/// Where node-a is itself the sender, a masqueraded packet may have the sender's address.
fn check_source(masquerade: bool, source: IpAddr, seen: IpAddr) -> Result<(), String> {
    match masquerade {
        true if topology::is_node_address(seen) => Ok(()),
        true => Err(format!("expected the endpoint to see an address of {}, but it saw {seen}", topology::NODE)),
        false if seen == source => Ok(()),
        false => Err(format!("expected the endpoint to see the sender's own address {source}, but it saw {seen}")),
    }
}

fn in_words(expected: &Expected) -> String {
    match expected {
        Expected::Forward { endpoints, .. } => {
            let endpoints: Vec<String> = endpoints.iter().map(SocketAddr::to_string).collect();
            format!("an answer from {}", endpoints.join(" or "))
        }
        Expected::Reject(reason) => format!("refusal ({reason})"),
        Expected::Drop(reason) => format!("silence ({reason})"),
        Expected::Pass => "the packet to pass untouched".to_owned(),
    }
}

fn happened(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answered { by, endpoint, .. } => format!("{by} answered as {endpoint}"),
        Outcome::Refused => "the connection was refused".to_owned(),
        Outcome::TimedOut => "no answer arrived".to_owned(),
        Outcome::Failed(reason) => format!("sending failed: {reason}"),
    }
}
