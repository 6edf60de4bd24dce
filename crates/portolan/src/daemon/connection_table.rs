//! The kernel's connection table. While it is full, the kernel drops the first packet of each new connection, which looks
//! like Services that do not answer. The rules do not depend on it, so a full table is only logged.

use std::fs;
use std::thread;
use std::time::Duration;

use super::events;

const ENTRIES: &str = "/proc/sys/net/netfilter/nf_conntrack_count";
const LIMIT: &str = "/proc/sys/net/netfilter/nf_conntrack_max";
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// In percent of the limit. The distance between the two keeps a table at the limit from filling the log.
const FULL: u64 = 95;
const ROOM: u64 = 80;

/// Logs once when the table fills up, and once when it has room again.
pub(super) fn watch() -> anyhow::Result<()> {
    let mut table = Table::default();
    events::spawn("conntrack", move || {
        // Without connection tracking there is no table.
        if let (Some(entries), Some(limit)) = (read(ENTRIES), read(LIMIT)) {
            table.note(entries, limit).into_iter().for_each(|change| change.log(entries, limit));
        }
        thread::sleep(LOOK_EVERY);
        true
    })
}

fn read(file: &str) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[derive(Default)]
struct Table {
    is_full: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Change {
    Full,
    Room,
}

impl Table {
    /// A limit of 0 is none.
    fn note(&mut self, entries: u64, limit: u64) -> Option<Change> {
        let reaches = |percent: u64| limit > 0 && entries.saturating_mul(100) >= limit.saturating_mul(percent);
        match self.is_full {
            false if reaches(FULL) => self.is_full = true,
            true if !reaches(ROOM) => self.is_full = false,
            _ => return None,
        }
        Some(if self.is_full { Change::Full } else { Change::Room })
    }
}

impl Change {
    fn log(&self, entries: u64, limit: u64) {
        match self {
            Self::Full => tracing::warn!(
                "the connection table is full or nearly full ({entries} of {limit} entries): the kernel drops the first \
                 packet of new connections while it is full; raise --conntrack-min (net.netfilter.nf_conntrack_max), \
                 lower the conntrack timeouts, or find the clients with `conntrack -L`"
            ),
            Self::Room => tracing::info!("the connection table has room again ({entries} of {limit} entries)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_at_its_limit_is_noted_once() {
        let mut table = Table::default();
        let noted = [10, 100, 99, 100, 96, 90, 94, 100, 70, 80, 96].map(|entries| table.note(entries, 100));
        let expected = [None, Some(Change::Full), None, None, None, None, None, None, Some(Change::Room), None];
        assert_eq!(noted[..10], expected);
        assert_eq!(noted[10], Some(Change::Full));
        assert_eq!(Table::default().note(1_000, 0), None);
    }
}
