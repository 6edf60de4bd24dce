//! The lines of a Service, without those that every node has.

use std::collections::BTreeSet;

use serde::Serialize;

use super::lines::Listing;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedLine {
    pub text: String,
    /// The ids of the parts that it belongs to.
    pub tags: Vec<String>,
    /// `service`, `context` (a block around lines of the Service), `node` (on every node) or `omitted`.
    pub kind: &'static str,
    /// How many lines are omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// Lines of one answer.
const MOST_LINES: usize = 5_000;

pub(super) fn all(listing: &Listing, tags: &[Vec<String>], of_service: &[usize]) -> Vec<ListedLine> {
    let of_service: BTreeSet<usize> = of_service.iter().copied().collect();
    let line = |(number, text): (usize, &String)| {
        let kind = if of_service.contains(&number) { "service" } else { "node" };
        ListedLine { text: text.clone(), tags: tags[number].clone(), kind, count: None }
    };
    listing.lines.iter().map(|line| &line.text).enumerate().take(MOST_LINES).map(line).collect()
}

pub(super) fn excerpt(listing: &Listing, tags: &[Vec<String>], of_service: &[usize]) -> Vec<ListedLine> {
    let own: BTreeSet<usize> = of_service.iter().copied().collect();
    let around: BTreeSet<usize> = own.iter().flat_map(|number| &listing.lines[*number].around).copied().collect();
    let (mut shown, mut skipped) = (Vec::new(), Vec::new());
    for (number, line) in listing.lines.iter().enumerate() {
        let is_around = around.contains(&number) || line.closes.is_some_and(|opened| around.contains(&opened));
        let kind = match (own.contains(&number), is_around) {
            (true, _) => "service",
            (false, true) => "context",
            (false, false) => {
                skipped.extend((!line.text.trim().is_empty()).then_some(&*line.text));
                continue;
            }
        };
        shown.extend(gap(std::mem::take(&mut skipped)));
        shown.push(ListedLine { text: line.text.clone(), tags: tags[number].clone(), kind, count: None });
    }
    shown.extend(gap(skipped));
    shown.truncate(MOST_LINES);
    shown
}

/// A line in place of many; one or two are shown instead.
const SMALL_GAP: usize = 2;

fn gap(lines: Vec<&str>) -> Vec<ListedLine> {
    let line = |text: String, kind, count| ListedLine { text, tags: Vec::new(), kind, count };
    match lines.len() {
        0..=SMALL_GAP => lines.into_iter().map(|text| line(text.to_owned(), "context", None)).collect(),
        count => {
            vec![line(format!("{count} lines that do not depend on the Service"), "omitted", Some(count))]
        }
    }
}
