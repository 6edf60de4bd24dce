//! Sends the packets of a scenario and compares the outcome with the expected fate.

use std::net::SocketAddr;
use std::panic;
use std::thread;
use std::time::Duration;

use super::{Lab, Outcome, check};
use crate::packet::{Expected, PacketLine, Protocol};
use crate::topology;

/// Long, because a loaded machine must not fail a packet that is only late.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Short, because a step with an expected silence takes this long.
const SILENT_FOR: Duration = Duration::from_millis(300);
/// With up to ten endpoints and a fair choice, this many tries per endpoint miss one with a probability below one in a
/// million.
const TRIES_PER_ENDPOINT: usize = 16;
/// A step does not require that every endpoint answers, only that no other does. With session affinity one endpoint gets
/// all packets of a client, so that more tries would show nothing new.
const TRIES_PER_ENDPOINT_OF_A_STEP: usize = 4;

impl Lab {
    /// Verifies the packets of one step, with every endpoint that they mention served before the first is sent; the
    /// error lists all failures. An endpoint without a server refuses the connection, which looks like a reject: call
    /// [`Lab::serve`] for endpoints that the objects have and no packet mentions.
    ///
    /// Packets that expect an answer are sent in order, because session affinity depends on it. Those that expect
    /// silence leave no state behind; they are sent at once, and the silences are awaited together.
    pub fn verify_all(&self, packets: &[PacketLine]) -> Result<(), String> {
        packets.iter().try_for_each(|packet| self.serve_endpoints(packet, &visible(packet)))?;
        let (silent, answered): (Vec<_>, Vec<_>) = packets.iter().partition(|packet| expects_silence(packet));
        let failure = |packet: &PacketLine| {
            let outcome = self.verify_within(packet, TRIES_PER_ENDPOINT_OF_A_STEP);
            outcome.err().map(|reason| (packet.line_number, reason))
        };
        let mut failures: Vec<(usize, String)> = thread::scope(|scope| {
            let silences: Vec<_> = silent.into_iter().map(|packet| scope.spawn(move || failure(packet))).collect();
            let failures: Vec<_> = answered.into_iter().filter_map(failure).collect();
            let late = silences.into_iter().filter_map(|it| it.join().unwrap_or_else(|it| panic::resume_unwind(it)));
            failures.into_iter().chain(late).collect()
        });
        failures.sort();
        let reasons: Vec<String> = failures.into_iter().map(|(_, reason)| reason).collect();
        if reasons.is_empty() { Ok(()) } else { Err(reasons.join("\n")) }
    }

    /// Sends one packet and compares the outcome with what its line expects. Servers are started on the expected
    /// endpoints. A packet that is forwarded to several endpoints is sent until each has answered, or for a fair
    /// number of tries; all outcomes are returned, for callers that check how the packets are spread.
    pub fn verify(&self, packet: &PacketLine) -> Result<Vec<Outcome>, String> {
        self.verify_within(packet, TRIES_PER_ENDPOINT)
    }

    fn verify_within(&self, packet: &PacketLine, tries_per_endpoint: usize) -> Result<Vec<Outcome>, String> {
        let expected = visible(packet);
        self.serve_endpoints(packet, &expected)?;
        let outcomes = self.send(packet, &expected, tries_per_endpoint);
        match check(&expected, packet.source.address, &outcomes) {
            Ok(()) => Ok(outcomes),
            Err(reason) => Err(about(packet, &reason)),
        }
    }

    fn serve_endpoints(&self, packet: &PacketLine, expected: &Expected) -> Result<(), String> {
        for endpoint in endpoints_of(expected) {
            let served = self.serve(*endpoint, packet.protocol);
            served.map_err(|error| about(packet, &error.to_string()))?;
        }
        Ok(())
    }

    /// Sends until every endpoint has answered or one packet has no answer.
    fn send(&self, packet: &PacketLine, expected: &Expected, tries_per_endpoint: usize) -> Vec<Outcome> {
        let timeout = if matches!(expected, Expected::Drop(_)) { SILENT_FOR } else { ANSWER_WITHIN };
        let endpoints = endpoints_of(expected);
        let mut outcomes = Vec::new();
        loop {
            let outcome = self.probe(&packet.source, packet.destination, packet.protocol, timeout);
            let answered = matches!(outcome, Outcome::Answered { .. });
            outcomes.push(outcome);
            let enough = outcomes.len() >= tries_per_endpoint * endpoints.len();
            if !answered || enough || all_answered(endpoints, &outcomes) {
                return outcomes;
            }
        }
    }
}

fn expects_silence(packet: &PacketLine) -> bool {
    matches!(visible(packet), Expected::Drop(_))
}

/// The part of a fate that the sender can observe: a packet that passes reaches its destination unchanged, or no host.
/// SCTP ignores "port unreachable" (RFC 9260, section 10), so that its refusals look like silence.
fn visible(packet: &PacketLine) -> Expected {
    match &packet.expected {
        Expected::Reject(reason) if packet.protocol == Protocol::Sctp => Expected::Drop(reason.clone()),
        Expected::Pass if topology::by_address(packet.destination.ip()).is_some() => {
            Expected::Forward { endpoints: vec![packet.destination], shares: Vec::new(), masquerade: false }
        }
        Expected::Pass => Expected::Drop("no-such-host".to_owned()),
        other => other.clone(),
    }
}

fn endpoints_of(expected: &Expected) -> &[SocketAddr] {
    match expected {
        Expected::Forward { endpoints, .. } => endpoints,
        _ => &[],
    }
}

fn all_answered(endpoints: &[SocketAddr], outcomes: &[Outcome]) -> bool {
    let answered = |wanted: &SocketAddr| {
        outcomes.iter().any(|outcome| matches!(outcome, Outcome::Answered { endpoint, .. } if endpoint == wanted))
    };
    endpoints.iter().all(answered)
}

fn about(packet: &PacketLine, reason: &str) -> String {
    format!("line {}: {packet}: {reason}", packet.line_number)
}
