//! The answer to a question by names, which may be about several packets.

use portolan_plan::{Plan, Trace};
use serde::{Deserialize, Serialize};

use crate::names::{NamedPacket, Paths};
use crate::packet::{PacketAnswer, explain_packet};
use crate::printable::printable;
use crate::table::{Style, table};

/// One answer for each address family and port that the names stand for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathAnswer {
    pub packets: Vec<PacketAnswer>,
    /// Packets beyond the limit of one answer.
    pub omitted: usize,
}

impl PathAnswer {
    /// With a trace of each packet through the objects.
    pub fn of(plan: &Plan, paths: &Paths, met: &[Trace], objects_from: &str) -> Self {
        let answer = |(named, met): (&NamedPacket, &Trace)| {
            let answer = explain_packet(plan, &named.packet, met, objects_from);
            let (source_name, destination_name) = (named.source.clone(), named.destination.clone());
            PacketAnswer { source_name, destination_name, ..answer }
        };
        Self { packets: paths.packets.iter().zip(met).map(answer).collect(), omitted: paths.omitted }
    }

    pub fn disagrees(&self) -> bool {
        self.packets.iter().any(|packet| packet.disagreement.is_some())
    }

    /// One packet in full, several as a table.
    pub fn text(&self, style: Style) -> String {
        if let ([packet], 0) = (self.packets.as_slice(), self.omitted) {
            return packet.text(style);
        }
        let rows: Vec<Vec<String>> = self.packets.iter().map(cells).collect();
        let mut text = table(&["FROM", "TO", "PACKET", "OUTCOME", "ENDPOINTS"], &rows, style);
        for disagreement in self.packets.iter().filter_map(|packet| packet.disagreement.as_ref()) {
            text += &(style.red(&format!("DISAGREEMENT: {}", printable(disagreement))) + "\n");
        }
        if self.omitted > 0 {
            text += &format!("{} more are not shown: write a port\n", self.omitted);
        }
        text + "with a port, the path is shown step by step\n"
    }
}

fn cells(answer: &PacketAnswer) -> Vec<String> {
    let name = |name: &Option<String>| printable(name.as_deref().unwrap_or("-")).into_owned();
    let outcome = [answer.outcome(Style::PLAIN)];
    let advice = answer.advice.iter().map(|advice| printable(advice).into_owned());
    let endpoints = answer.candidates.iter().map(|candidate| match &candidate.pod {
        Some(pod) => format!("{} (pod {})", candidate.endpoint, printable(pod)),
        None => candidate.endpoint.to_string(),
    });
    vec![
        name(&answer.source_name),
        name(&answer.destination_name),
        answer.packet.clone(),
        outcome.into_iter().chain(advice).collect::<Vec<_>>().join("\n"),
        endpoints.collect::<Vec<_>>().join("\n"),
    ]
}
