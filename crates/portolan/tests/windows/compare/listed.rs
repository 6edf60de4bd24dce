//! The differences that are known, with their reasons: `differences.txt`.

use std::collections::{BTreeMap, BTreeSet};

const TEXT: &str = include_str!("../differences.txt");
const SOMETIMES: &str = "sometimes ";

pub(crate) struct Listed(BTreeMap<String, Entry>);

struct Entry {
    kinds: BTreeSet<String>,
    /// kube-proxy's result differs from run to run, and so the difference need not occur.
    is_sometimes: bool,
}

impl Listed {
    /// Lines `SCENARIO | KIND, KIND | REASON`.
    ///
    /// # Panics
    /// When a line is not of this form, or names a scenario again.
    pub(crate) fn read() -> Self {
        let lines = TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut listed = BTreeMap::new();
        for line in lines {
            let parts: Vec<&str> = line.split('|').map(str::trim).collect();
            let [scenario, kinds, reason] = parts[..] else { panic!("{line:?} is not `SCENARIO | KINDS | REASON`") };
            assert!(!reason.is_empty(), "{line:?} gives no reason");
            let is_sometimes = kinds.starts_with(SOMETIMES);
            let kinds = kinds.trim_start_matches(SOMETIMES).split(", ").map(str::to_owned).collect();
            let before = listed.insert(scenario.to_owned(), Entry { kinds, is_sometimes });
            assert!(before.is_none(), "{scenario} is listed twice");
        }
        Self(listed)
    }

    /// Whether a scenario may have exactly these differences.
    pub(crate) fn allows<'a>(&self, scenario: &str, kinds: impl IntoIterator<Item = &'a str>) -> bool {
        let kinds: BTreeSet<String> = kinds.into_iter().map(str::to_owned).collect();
        match self.0.get(scenario) {
            None => kinds.is_empty(),
            Some(entry) => entry.kinds == kinds || entry.is_sometimes && kinds.is_empty(),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}
