//! Where does this packet go, and why?

use std::net::{IpAddr, SocketAddr};

use portolan_model::Protocol;
use portolan_plan::{Fate, Packet, Plan, PortKey, ServicePlan, Step, Trace, trace};
use serde::{Deserialize, Serialize};

use crate::advice::{advice, pods_of};
use crate::algorithm;
use crate::conditions::conditions;
use crate::open_connections;
use crate::printable::printable;
use crate::table::Style;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PacketQuestion {
    pub source: IpAddr,
    pub interface: Option<String>,
    pub destination: IpAddr,
    pub port: u16,
    pub protocol: String,
    /// A process or a pod of this node sends it, also where the plan does not show that.
    #[serde(default)]
    pub on_node: bool,
}

impl PacketQuestion {
    pub fn packet(&self, plan: &Plan) -> Result<Packet, String> {
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            return Err(format!("{} and {} are of different address families", self.source, self.destination));
        }
        Ok(Packet {
            source: self.source,
            interface: self.interface.as_deref().map(Into::into),
            destination: self.destination,
            port: self.port,
            protocol: self.protocol.parse::<Protocol>()?,
            is_from_socket: self.on_node || plan.is_on_node(self.source),
        })
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PacketAnswer {
    pub packet: String,
    /// The names that the question is about, where it has names.
    #[serde(default)]
    pub source_name: Option<String>,
    #[serde(default)]
    pub destination_name: Option<String>,
    pub service: Option<String>,
    /// `forward`, `reject`, `drop`, `pass`, `stopped` (by a rule that belongs to no Service) or `unknown`.
    pub fate: String,
    pub reason: Option<String>,
    pub explanation: String,
    /// What to look at, if the packet is refused.
    #[serde(default)]
    pub advice: Vec<String>,
    pub candidates: Vec<CandidateAnswer>,
    /// How new connections of the Service are shared among its endpoints, if it or the operator asks for an algorithm.
    #[serde(default)]
    pub algorithm: Option<String>,
    /// What happens to open connections of an endpoint that is removed: `reset` or `reset-after=30s`; absent for `keep`.
    #[serde(default)]
    pub connections_of_removed_endpoints: Option<String>,
    /// Whether idle connections end when endpoints were added: `idle=60s`; absent for `off`.
    #[serde(default)]
    pub rebalance: Option<String>,
    /// Session affinity of the Service, in seconds.
    pub affinity_seconds: Option<u32>,
    /// How the plan decides.
    pub decisions: Vec<StepAnswer>,
    /// What the packet matches in the mode's objects.
    pub objects: Vec<StepAnswer>,
    /// Which objects were traced: those that would be programmed, or those that the kernel holds.
    pub objects_from: String,
    /// The rule that drops or rejects the packet, where that rule is not one of Portolan's for a Service.
    #[serde(default)]
    pub stopped_by: Option<String>,
    /// Where plan and objects disagree, in words. Anything here is a fault: in the kernel's state, or in Portolan.
    pub disagreement: Option<String>,
    /// What limits the answer, such as rules of other programs that are not understood.
    #[serde(default)]
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CandidateAnswer {
    pub endpoint: SocketAddr,
    pub probability: f64,
    pub masquerade: bool,
    /// The Pod behind the endpoint, as `namespace/name`.
    #[serde(default)]
    pub pod: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepAnswer {
    pub met: String,
    pub because: String,
}

/// Compares what the plan decides about a packet with what the packet meets in a mode's objects.
pub fn explain_packet(plan: &Plan, packet: &Packet, met: &Trace, objects_from: &str) -> PacketAnswer {
    let decided = trace(plan, packet);
    let service = decided.service.as_ref().and_then(|key| plan.services.get(key));
    // Whatever the plan decides, a packet that is stopped does not arrive.
    let is_decided = !matches!(met.fate, Fate::Stopped { .. } | Fate::Unknown { .. });
    let fate = if is_decided { &decided.fate } else { &met.fate };
    PacketAnswer {
        packet: packet.to_string(),
        source_name: None,
        destination_name: None,
        service: decided.service.as_ref().map(ToString::to_string),
        fate: fate_word(fate).into(),
        reason: reason(fate),
        explanation: explanation(fate, met.refused_by.as_deref(), service.is_some_and(|it| is_hashed(it, packet))),
        advice: advice(plan, packet, decided.service.as_ref(), fate),
        candidates: candidates(plan, decided.service.as_ref(), fate),
        algorithm: service.and_then(|service| algorithm::name(&service.balance)),
        connections_of_removed_endpoints: service.and_then(|it| open_connections::removed(it.open_connections)),
        rebalance: service.and_then(|it| open_connections::rebalance(it.open_connections)),
        affinity_seconds: service.and_then(|service| service.affinity_seconds),
        decisions: steps(&decided.steps),
        objects: steps(&met.steps),
        objects_from: objects_from.into(),
        stopped_by: stopped_by(fate),
        disagreement: disagreement(&decided, met, objects_from),
        notes: met.notes.iter().cloned().chain(service.into_iter().flat_map(|port| notes(plan, port))).collect(),
    }
}

/// An algorithm that the mode lacks, and endpoints that the packet may miss among the candidates, or that have a smaller share
/// than others.
fn notes(plan: &Plan, port: &ServicePlan) -> Vec<String> {
    let unusual = conditions(plan, port).into_iter().filter(|it| it.condition != "draining");
    let unusual = unusual.map(|it| format!("{} is {}: {}", it.endpoint, it.condition, it.because));
    algorithm::note(&port.balance).into_iter().chain(unusual).collect()
}

fn disagreement(decided: &Trace, met: &Trace, objects_from: &str) -> Option<String> {
    let differs = decided.fate != met.fate;
    differs.then(|| format!("the plan decides \"{}\", but in {objects_from} it is \"{}\"", decided.fate, met.fate))
}

fn stopped_by(fate: &Fate) -> Option<String> {
    match fate {
        Fate::Stopped { by } => Some(by.clone()),
        _ => None,
    }
}

fn fate_word(fate: &Fate) -> &'static str {
    match fate {
        Fate::Forward(_) => "forward",
        Fate::Refuse(portolan_plan::Refusal::Reject(_)) => "reject",
        Fate::Refuse(portolan_plan::Refusal::Drop(_)) => "drop",
        Fate::Pass => "pass",
        Fate::Stopped { .. } => "stopped",
        Fate::Unknown { .. } => "unknown",
    }
}

fn reason(fate: &Fate) -> Option<String> {
    match fate {
        Fate::Refuse(refusal) => Some(refusal.reason().to_string()),
        _ => None,
    }
}

/// Whether a hash of the client alone decides which of several endpoints it gets.
fn is_hashed(service: &ServicePlan, packet: &Packet) -> bool {
    let slots = service.cluster.len().max(service.local.len());
    slots > 1 && service.balance.slot_of(packet.source, slots).is_some()
}

fn explanation(fate: &Fate, refused_by: Option<&str>, is_hashed: bool) -> String {
    match fate {
        Fate::Forward(_) if is_hashed => "forwarded to the endpoint that a hash of the client selects".into(),
        Fate::Forward(candidates) => match portolan_plan::shares(candidates).len() {
            1 => "forwarded to the only endpoint".into(),
            count => format!("forwarded to one of {count} endpoints"),
        },
        Fate::Refuse(refusal @ portolan_plan::Refusal::Reject(_)) => {
            let answer = refused_by.unwrap_or("ICMP port unreachable");
            format!("refused at once ({answer}): {}", refusal.reason().in_words())
        }
        Fate::Refuse(refusal) => format!("dropped without an answer: {}", refusal.reason().in_words()),
        Fate::Pass => "not touched: no Service has this address and port".into(),
        Fate::Stopped { by } => format!("stopped by a rule that belongs to no Service: {by}"),
        Fate::Unknown { because } => format!("unknown, because a rule is not understood: {because}"),
    }
}

fn candidates(plan: &Plan, service: Option<&PortKey>, fate: &Fate) -> Vec<CandidateAnswer> {
    let Fate::Forward(candidates) = fate else { return Vec::new() };
    let pods = service.map(|key| pods_of(plan, &key.name.service)).unwrap_or_default();
    let answer = |(it, probability): (portolan_plan::Candidate, f64)| CandidateAnswer {
        endpoint: it.endpoint,
        probability,
        masquerade: it.masquerade,
        pod: pods.get(&it.endpoint.ip()).cloned(),
    };
    portolan_plan::shares(candidates).into_iter().map(answer).collect()
}

fn steps(steps: &[Step]) -> Vec<StepAnswer> {
    steps.iter().map(|step| StepAnswer { met: step.met.clone(), because: step.because.clone() }).collect()
}

impl PacketAnswer {
    pub fn text(&self, style: Style) -> String {
        let mut lines = vec![style.bold(&self.heading()), String::new(), "decided".into()];
        lines.extend(step_lines(&self.decisions, style));
        lines.push(format!("met in {}", self.objects_from));
        lines.extend(step_lines(&self.objects, style));
        lines.push(self.outcome(style));
        lines.extend(self.advice.iter().map(|advice| format!("  {}", printable(advice))));
        lines.extend(self.candidates.iter().map(|candidate| candidate_line(candidate, style)));
        if let Some(algorithm) = self.algorithm.as_ref().filter(|_| !self.candidates.is_empty()) {
            lines.push(format!("  by the algorithm {algorithm}"));
        }
        if let Some(seconds) = self.affinity_seconds.filter(|_| !self.candidates.is_empty()) {
            lines.push(format!("  a client stays with its endpoint for {seconds} s after its last new connection"));
        }
        if !self.candidates.is_empty() {
            let settings =
                open_connections::lines(self.connections_of_removed_endpoints.as_deref(), self.rebalance.as_deref());
            lines.extend(settings.into_iter().map(|setting| format!("  open connections: {setting}")));
        }
        if let Some(disagreement) = &self.disagreement {
            lines.push(style.red(&format!("DISAGREEMENT: {disagreement}")));
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {}", printable(note))));
        lines.join("\n") + "\n"
    }

    /// The packet, and the names that it stands for.
    fn heading(&self) -> String {
        match (&self.source_name, &self.destination_name) {
            (None, None) => self.packet.clone(),
            (source, destination) => {
                let name = |name: &Option<String>| printable(name.as_deref().unwrap_or("-")).into_owned();
                format!("{} -> {}\n{}", name(source), name(destination), self.packet)
            }
        }
    }

    pub(crate) fn outcome(&self, style: Style) -> String {
        let explanation = printable(&self.explanation);
        match self.fate.as_str() {
            "forward" => style.green(&explanation),
            "pass" => explanation.into_owned(),
            _ => style.red(&explanation),
        }
    }
}

fn step_lines(steps: &[StepAnswer], style: Style) -> Vec<String> {
    let met = |step: &StepAnswer| printable(&step.met).into_owned();
    let width = steps.iter().map(|step| met(step).chars().count()).max().unwrap_or(0);
    let nothing = steps.is_empty().then(|| style.dim("  nothing"));
    let line = |step: &StepAnswer| {
        let because = printable(step.because.trim_start_matches(" : "));
        format!("  {:<width$}  {}", met(step), style.dim(&because))
    };
    nothing.into_iter().chain(steps.iter().map(line)).collect()
}

fn candidate_line(candidate: &CandidateAnswer, style: Style) -> String {
    let source =
        if candidate.masquerade { "sees the node's address (masquerade)" } else { "sees the client's address" };
    let endpoint = candidate.endpoint.to_string();
    let pod = candidate.pod.as_ref().map_or(String::new(), |pod| format!("  pod {}", printable(pod)));
    format!("  {endpoint:<24} {:>5.1} %  {}{pod}", candidate.probability * 100.0, style.dim(source))
}
