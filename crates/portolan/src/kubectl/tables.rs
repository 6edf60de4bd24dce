//! The answers of all nodes as one table.

use std::collections::BTreeMap;

use anyhow::Context;
use portolan_explain::{DifferenceAnswer, ServicesAnswer, Style, VerifyAnswer, printable, table};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::{style, write_out};
use crate::exit::{DIFFERENT, FAILURE, SUCCESS};
use crate::flags::Output;

/// Services that are named in one cell.
const MOST_NAMES: usize = 5;

/// What one node has answered.
#[derive(Clone, Debug, Serialize)]
pub(super) struct NodeAnswer {
    pub(super) node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<String>,
    /// The exit status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl NodeAnswer {
    pub(super) fn failed(node: String, pod: Option<String>, error: String) -> Self {
        Self { node, pod, status: None, answer: None, error: Some(error) }
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        match (&self.answer, &self.error) {
            (Some(answer), _) => T::deserialize(answer).map_err(|error| format!("of another version: {error}")),
            (None, Some(error)) => Err(error.clone()),
            (None, None) => Err("no answer".to_owned()),
        }
    }
}

/// The cells of one node behind its name, whether it differs, and what is to be said below the table.
struct Row {
    cells: Vec<String>,
    status: u8,
    details: Option<String>,
}

/// Prints the answers; the result is the exit status: 2 if a node has none, else 1 if one differs.
pub(super) fn show(command: &str, output: Output, answers: &[NodeAnswer]) -> anyhow::Result<u8> {
    let (heading, rows) = rows(command, answers);
    let status = status(&rows);
    let text = match output {
        Output::Json => serde_json::to_string_pretty(answers).context("writing the answers")? + "\n",
        Output::Text => text(&heading, answers, &rows, style()),
    };
    write_out(&text)?;
    Ok(status)
}

fn status(rows: &[Row]) -> u8 {
    rows.iter().map(|row| row.status).max().unwrap_or(SUCCESS)
}

fn rows(command: &str, answers: &[NodeAnswer]) -> (Vec<&'static str>, Vec<Row>) {
    match command {
        "verify" => (vec!["NODE", "MODE", "OBJECTS", "RESULT"], answers.iter().map(verify).collect()),
        "diff" => (vec!["NODE", "BEHAVIOUR", "OBJECTS", "RESULT"], answers.iter().map(diff).collect()),
        _ => {
            let usual = Usual::of(answers);
            let heading = vec!["NODE", "PORTS", "ENDPOINTS", "RESULT"];
            (heading, answers.iter().map(|answer| services(answer, &usual)).collect())
        }
    }
}

fn text(heading: &[&str], answers: &[NodeAnswer], rows: &[Row], style: Style) -> String {
    let cells = |(answer, row): (&NodeAnswer, &Row)| {
        let name = printable(&answer.node).into_owned();
        [vec![name], row.cells.iter().map(|cell| printable(cell).into_owned()).collect()].concat()
    };
    let cells: Vec<Vec<String>> = answers.iter().zip(rows).map(cells).collect();
    let mut text = table(heading, &cells, style);
    // Nodes with the same to say share it.
    let mut details: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (answer, row) in answers.iter().zip(rows) {
        row.details.iter().for_each(|it| details.entry(it).or_default().push(&answer.node));
    }
    for (detail, nodes) in details {
        text += &format!("\n{}\n{detail}", style.bold(&format!("{}:", printable(&nodes.join(", ")))));
    }
    text
}

fn failed(reason: String) -> Row {
    let cells = vec!["-".to_owned(), "-".to_owned(), format!("no answer: {reason}")];
    Row { cells, status: FAILURE, details: None }
}

fn verify(answer: &NodeAnswer) -> Row {
    let found: VerifyAnswer = match answer.read() {
        Ok(found) => found,
        Err(reason) => return failed(reason),
    };
    let number = |kind: &str| found.differences.iter().filter(|it| it.kind == kind).count();
    let kinds = ["missing", "superfluous", "different"].map(|kind| (kind, number(kind)));
    let differences: Vec<String> =
        kinds.iter().filter(|(_, number)| *number > 0).map(|(kind, number)| format!("{number} {kind}")).collect();
    let result = if found.agrees() { "holds the plan".to_owned() } else { differences.join(", ") };
    Row {
        cells: vec![found.mode.clone(), found.wanted.to_string(), result],
        status: if found.agrees() { SUCCESS } else { DIFFERENT },
        details: (!found.agrees()).then(|| found.text(style())),
    }
}

fn diff(answer: &NodeAnswer) -> Row {
    let found: DifferenceAnswer = match answer.read() {
        Ok(found) => found,
        Err(reason) => return failed(reason),
    };
    let result = if found.is_empty() { "no difference" } else { "differs" };
    Row {
        cells: vec![found.behaviour.len().to_string(), found.objects.len().to_string(), result.to_owned()],
        status: if found.is_empty() { SUCCESS } else { DIFFERENT },
        details: (!found.is_empty()).then(|| found.text(style())),
    }
}

/// What a node has of a Service port: it is the same on every node that has seen all changes.
type Seen = (usize, usize);

/// What most nodes have.
struct Usual(BTreeMap<(String, String), Option<Seen>>);

impl Usual {
    fn of(answers: &[NodeAnswer]) -> Self {
        let read: Vec<BTreeMap<(String, String), Seen>> =
            answers.iter().filter_map(|it| it.read().ok()).map(seen).collect();
        let names = read.iter().flat_map(BTreeMap::keys).cloned();
        let usual = |name: &(String, String)| {
            let mut votes: BTreeMap<Option<Seen>, usize> = BTreeMap::new();
            read.iter().for_each(|node| *votes.entry(node.get(name).copied()).or_default() += 1);
            votes.into_iter().max_by_key(|(_, votes)| *votes).and_then(|(seen, _)| seen)
        };
        Self(names.map(|name| (name.clone(), usual(&name))).collect())
    }
}

fn seen(answer: ServicesAnswer) -> BTreeMap<(String, String), Seen> {
    answer.services.into_iter().map(|row| ((row.service, row.protocol), (row.ready, row.total))).collect()
}

fn services(answer: &NodeAnswer, usual: &Usual) -> Row {
    let found = match answer.read().map(seen) {
        Ok(found) => found,
        Err(reason) => return failed(reason),
    };
    let other = |(name, usual): (&(String, String), &Option<Seen>)| match (found.get(name).copied(), *usual) {
        (own, usual) if own == usual => None,
        (None, Some(_)) => Some(format!("{} is missing", name.0)),
        (Some(_), None) => Some(format!("{} is on few nodes", name.0)),
        (Some(own), Some(usual)) => {
            Some(format!("{} has {} of {} ready, elsewhere {} of {}", name.0, own.0, own.1, usual.0, usual.1))
        }
        (None, None) => None,
    };
    let mut others: Vec<String> = usual.0.iter().filter_map(other).collect();
    let status = if others.is_empty() { SUCCESS } else { DIFFERENT };
    let more = others.len().saturating_sub(MOST_NAMES);
    others.truncate(MOST_NAMES);
    others.extend((more > 0).then(|| format!("and {more} more")));
    let result = if others.is_empty() { "as on the other nodes".to_owned() } else { others.join("; ") };
    let ready: usize = found.values().map(|(ready, _)| ready).sum();
    Row { cells: vec![found.len().to_string(), ready.to_string(), result], status, details: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answered(node: &str, status: u8, answer: Value) -> NodeAnswer {
        NodeAnswer {
            node: node.into(),
            pod: Some(format!("portolan-{node}")),
            status: Some(status),
            answer: Some(answer),
            error: None,
        }
    }

    fn printed(command: &str, answers: &[NodeAnswer]) -> (String, u8) {
        let (heading, rows) = rows(command, answers);
        (text(&heading, answers, &rows, Style::PLAIN), status(&rows))
    }

    fn verified(differences: Value) -> Value {
        json!({"mode": "m", "wanted": 7, "differences": differences})
    }

    #[test]
    fn a_node_that_differs_is_shown_with_what_differs() {
        let missing = json!([{"object": "set \u{1b}[2J", "kind": "missing", "kernel": null, "plan": "x"}]);
        let good = answered("n1", 0, verified(json!([])));
        assert_eq!(printed("verify", std::slice::from_ref(&good)).1, SUCCESS);
        let (text, status) = printed("verify", &[good.clone(), answered("n2", 1, verified(missing))]);
        assert_eq!(status, DIFFERENT);
        assert!(text.starts_with("NODE  MODE  OBJECTS  RESULT\nn1    m     7        holds the plan\nn2    m     7        1 missing\n\nn2:\n"), "{text}");
        let (text, status) = printed("verify", &[good, NodeAnswer::failed("n3".into(), None, "gone\u{7}".into())]);
        assert_eq!(status, FAILURE);
        assert!(text.contains("n3    -     -        no answer: gone") && !text.contains('\u{7}'), "{text}");
    }

    #[test]
    fn a_node_with_other_endpoints_than_most_stands_out() {
        let row = |ready: usize| {
            json!({"services": [{"service": "default/web", "protocol": "tcp", "frontends": [], "endpoints": [], "ready": ready,
                "total": 3, "internal_policy": "Cluster", "external_policy": "Cluster", "affinity_seconds": null,
                "conflicts": []}]})
        };
        let nodes = [answered("n1", 0, row(3)), answered("n2", 0, row(2)), answered("n3", 0, row(3))];
        let (text, status) = printed("services", &nodes);
        assert_eq!(status, DIFFERENT);
        assert!(text.contains("n2    1      2          default/web has 2 of 3 ready, elsewhere 3 of 3"), "{text}");
        assert!(text.contains("n1    1      3          as on the other nodes"), "{text}");
        let late = answered("n4", 0, json!({"services": []}));
        assert!(printed("services", &[nodes[0].clone(), nodes[2].clone(), late]).0.contains("default/web is missing"));
    }

    #[test]
    fn an_answer_of_another_version_is_no_answer() {
        let (text, status) = printed("diff", &[answered("n1", 0, json!({"changes": 1}))]);
        assert_eq!(status, FAILURE);
        assert!(text.contains("of another version"), "{text}");
    }
}
