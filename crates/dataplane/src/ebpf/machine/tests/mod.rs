//! The machine with instructions of the tests, and with the committed programs.

mod hooks;
mod instructions;

use std::collections::BTreeMap;

use super::Maps;

/// Entries by map and key.
#[derive(Default)]
struct Table(BTreeMap<(&'static str, Vec<u8>), Vec<u8>>);

impl Table {
    fn add(&mut self, map: &'static str, key: Vec<u8>, value: Vec<u8>) {
        self.0.insert((map, key), value);
    }
}

impl Maps for Table {
    fn lookup(&self, map: &str, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.0.iter().find(|((name, known), _)| *name == map && known == key);
        found.map(|(_, value)| value.clone())
    }
}
