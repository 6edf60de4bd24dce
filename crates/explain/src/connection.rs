//! Where does an existing connection lead, and where would a new one?

use portolan_dataplane::connections::OpenConnection;
use portolan_plan::{Packet, Plan, trace};
use serde::{Deserialize, Serialize};

use crate::connections::ConnectionRow;
use crate::packet::{PacketAnswer, explain_packet};
use crate::printable::printable;
use crate::table::Style;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConnectionAnswer {
    /// `CLIENT:PORT -> SERVER:PORT/PROTOCOL`.
    pub asked: String,
    /// `None` if the node does not track it.
    pub connection: Option<ConnectionRow>,
    /// What the plan decides about a new connection of the same client.
    pub new: PacketAnswer,
}

pub fn connection_answer(
    plan: &Plan,
    asked: String,
    packet: &Packet,
    open: Option<&OpenConnection>,
) -> ConnectionAnswer {
    // A connection that exists is not led by the rules, so that only the plan matters here.
    let decided = trace(plan, packet);
    let new = explain_packet(plan, packet, &decided, "the plan");
    ConnectionAnswer { asked, connection: open.map(|open| ConnectionRow::of(plan, open)), new }
}

const NOT_TRACKED: &str = "not tracked here: it has ended, passes another node, or connection tracking does not see it";

impl ConnectionAnswer {
    pub fn text(&self, style: Style) -> String {
        let mut lines = vec![style.bold(&printable(&self.asked)), String::new()];
        match &self.connection {
            Some(row) => lines.extend(row.lines(style)),
            None => lines.push(style.yellow(NOT_TRACKED)),
        }
        lines.push(format!("a new connection of this client: {}", self.new.outcome(style)));
        lines.extend(self.new.advice.iter().map(|advice| format!("  {}", printable(advice))));
        lines.extend(self.new.candidates.iter().map(|candidate| format!("  {}", candidate.endpoint)));
        lines.join("\n") + "\n"
    }
}
