//! The log of changes, and how many each Service had.

use std::collections::{BTreeMap, VecDeque};

use portolan_explain::ChangeEntry;

/// Lines that are kept, two for each change.
const MOST_LINES: usize = 2000;

#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Newest first: what led to a change, and below it what it means for clients.
    pub lines: VecDeque<String>,
    /// By `namespace/name`.
    counts: BTreeMap<String, u64>,
}

impl Changes {
    pub(crate) fn add(&mut self, change: &ChangeEntry) {
        self.lines.push_front(format!("  => {}", change.effects_in_one()));
        self.lines.push_front(format!("{}  {:>9}  {}", clock(change), change.latency(), change.causes_in_one()));
        self.lines.truncate(MOST_LINES);
        change.services.iter().for_each(|service| *self.counts.entry(service.clone()).or_default() += 1);
    }

    /// The changes of the Service that a row is a port of.
    pub(crate) fn of(&self, row: &str) -> u64 {
        self.counts.get(service(row)).copied().unwrap_or(0)
    }
}

/// The time of day, in UTC: the log is about minutes, and a line is short.
fn clock(change: &ChangeEntry) -> String {
    let time = change.time();
    time.split_once('T').and_then(|(_, time)| time.get(..8)).unwrap_or(&time).to_owned()
}

/// `namespace/name` of `namespace/name:port/udp`.
fn service(row: &str) -> &str {
    let end = row.match_indices(['/', ':']).nth(1).map_or(row.len(), |(end, _)| end);
    &row[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_port_of_a_service() {
        for row in ["default/web", "default/web:http", "default/web:dns/udp", "default/web/udp"] {
            assert_eq!(service(row), "default/web");
        }
        assert_eq!(service("odd"), "odd");
    }
}
