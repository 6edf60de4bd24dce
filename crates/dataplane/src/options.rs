//! What an operator has configured about modes. A mode reads its own options by name, so that no other part of the
//! program depends on them.

use std::collections::BTreeMap;
use std::time::Duration;

/// Settings that modes are opened with.
#[derive(Clone, Debug, PartialEq)]
pub struct ModeSettings {
    /// The bit of the packet mark that means "masquerade", 0 to 31.
    pub masquerade_bit: u8,
    /// Count connections, packets and bytes by Service and endpoint.
    pub traffic_counters: bool,
    pub options: Options,
}

impl Default for ModeSettings {
    fn default() -> Self {
        Self { masquerade_bit: 14, traffic_counters: true, options: Options::default() }
    }
}

/// Fields of kube-proxy's configuration by their path, such as `ipvs.scheduler`, and flags by their name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(BTreeMap<String, OptionValue>);

#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    Text(String),
    Boolean(bool),
    Duration(Duration),
    List(Vec<String>),
}

impl Options {
    pub fn set(&mut self, name: &str, value: OptionValue) {
        self.0.insert(name.into(), value);
    }

    /// Empty if it is not given.
    pub fn text(&self, name: &str) -> &str {
        match self.0.get(name) {
            Some(OptionValue::Text(text)) => text,
            _ => "",
        }
    }

    pub fn boolean(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(OptionValue::Boolean(true)))
    }

    pub fn duration(&self, name: &str) -> Option<Duration> {
        match self.0.get(name) {
            Some(OptionValue::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }

    pub fn list(&self, name: &str) -> &[String] {
        match self.0.get(name) {
            Some(OptionValue::List(items)) => items,
            _ => &[],
        }
    }
}

/// A flag that one mode adds to `portolan proxy`.
#[derive(Clone, Copy, Debug)]
pub struct ModeFlag {
    pub name: &'static str,
    pub help: &'static str,
    pub default: &'static str,
    pub kind: FlagKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagKind {
    Boolean,
    Duration,
    Path,
}
