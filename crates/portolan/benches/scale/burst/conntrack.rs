//! The kernel's counters of connection tracking, one set for each network namespace.

use std::fs;

use portolan_testkit::Host;

const FILE: &str = "/proc/thread-self/net/stat/nf_conntrack";
/// As `conntrack -S` calls them.
pub(super) const NAMES: [&str; 4] = ["insert_failed", "drop", "search_restart", "clash_resolve"];
const COLUMNS: [&str; 4] = ["insert_failed", "drop", "search_restart", "clashres"];

#[derive(Default)]
pub(super) struct Races([u64; 4]);

impl Races {
    pub(super) fn read(host: &Host) -> Self {
        Self::parse(&host.run(|| fs::read_to_string(FILE)).expect("the kernel has connection tracking"))
    }

    /// A line of names, then one of hexadecimal numbers for each processor.
    fn parse(text: &str) -> Self {
        let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let names = lines.next().unwrap_or_default();
        let processors: Vec<Vec<&str>> = lines.collect();
        Self(COLUMNS.map(|column| {
            let index = names.iter().position(|name| *name == column).expect("the kernel has the counter");
            processors.iter().filter_map(|values| u64::from_str_radix(values.get(index)?, 16).ok()).sum()
        }))
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let mut difference = self.0;
        difference.iter_mut().zip(before.0).for_each(|(value, before)| *value -= before);
        Self(difference)
    }

    pub(super) fn add(&mut self, more: &Self) {
        self.0.iter_mut().zip(more.0).for_each(|(value, more)| *value += more);
    }

    pub(super) fn values(&self) -> [u64; 4] {
        self.0
    }
}
