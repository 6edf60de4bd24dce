//! A Service as a picture of text: clients, frontends, endpoints with their shares.

use serde_json::Value;

/// Lines of `clients → frontends → endpoints` from the answer of `portolan services --output json`.
pub(crate) fn picture(service: &Value, answers: &[(String, usize)]) -> Vec<String> {
    let frontends: Vec<String> = texts(&service["frontends"]).map(|text| frontend(&text)).collect();
    let total: usize = answers.iter().map(|(_, count)| count).sum();
    let endpoints: Vec<String> = texts(&service["endpoints"]).collect();
    let share = 100.0 / endpoints.len().max(1) as f64;
    let seen = |endpoint: &str| answers.iter().find(|(name, _)| name == endpoint).map_or(0, |(_, count)| *count);
    let endpoint = |text: &String| {
        let (address, given) = text.split_once(' ').unwrap_or((text, ""));
        let share = if given.is_empty() { format!("{share:.1}%") } else { given.to_owned() };
        let count = seen(address);
        let measured =
            if total > 0 { format!("  {:.1}% measured", count as f64 / total as f64 * 100.0) } else { String::new() };
        format!("{address:<18} {share:>6}{measured}")
    };
    let right: Vec<String> = endpoints.iter().map(endpoint).collect();
    let left = ["a pod", "the node itself", "outside"].map(str::to_owned);
    joined(&[&left, &frontends, &right])
}

/// The kind of address, and the address.
fn frontend(text: &str) -> String {
    let (kind, address) = text.rsplit_once(' ').unwrap_or(("", text));
    format!("{kind:<16} {address}")
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

/// Columns side by side, each in a bracket, with an arrow from one to the next.
fn joined(columns: &[&[String]]) -> Vec<String> {
    let height = columns.iter().map(|column| column.len()).max().unwrap_or(0);
    let line = |row: usize| {
        let mut text = String::from("   ");
        for (at, column) in columns.iter().enumerate() {
            let width = column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            let cell = column.get(row).map_or("", String::as_str);
            text += &format!("{cell:<width$}");
            if at + 1 < columns.len() {
                text += &between(row, column.len(), columns[at + 1].len(), height);
            }
        }
        text.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// The lines of the left column meet, and part again for the right one.
fn between(row: usize, left: usize, right: usize, height: usize) -> String {
    let edge =
        |count: usize, only: &'static str, first: &'static str, inner: &'static str, last: &'static str| match row {
            _ if row >= count => "  ",
            _ if count == 1 => only,
            0 => first,
            _ if row + 1 == count => last,
            _ => inner,
        };
    let shared = left.max(right).min(height);
    let middle = if row == 0 && shared > 0 { "───" } else { "   " };
    let from = edge(left, "──", "─┬", "─┤", "─┘");
    let to = edge(right, "─▶", "┬▶", "├▶", "└▶");
    format!(" {from}{middle}{to} ")
}
