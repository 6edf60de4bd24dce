//! Rules name the listener that they lead to; the kernel knows it by its port, which only a running daemon can tell.

use std::sync::Arc;

use super::objects::Listener;
use crate::tables::{Key, Value};

const OPENING: char = '<';
const CLOSING: char = '>';
/// The words before the port in the two kinds of rules.
const REDIRECT: &str = "-j REDIRECT --to-ports ";
const TRANSLATE: &str = "-j DNAT --to-destination ";

/// Stands in a rule where the kernel has a port.
pub(super) fn placeholder(listener: &Listener) -> String {
    format!("{OPENING}{}{CLOSING}", listener.name)
}

/// A rule in three parts: what comes before the port, the port or the listener's name, and what comes after it.
struct Parts<'a> {
    before: &'a str,
    port: &'a str,
}

/// `None` if the rule leads to no listener. The port stands at its end.
fn parts(rule: &str) -> Option<Parts<'_>> {
    let start = match (rule.rfind(REDIRECT), rule.rfind(TRANSLATE)) {
        (Some(at), _) => at + REDIRECT.len(),
        (None, Some(at)) => at + TRANSLATE.len() + target_start(&rule[at + TRANSLATE.len()..])?,
        (None, None) => return None,
    };
    let (before, port) = rule.split_at(start);
    (!port.contains(' ')).then_some(Parts { before, port })
}

/// The port of `ADDRESS:PORT` and `[ADDRESS]:PORT`; a listener's name has colons in it, too.
fn target_start(target: &str) -> Option<usize> {
    let address = if target.starts_with('[') { target.find(']')? } else { 0 };
    Some(address + target[address..].find(':')? + 1)
}

/// The listener's name, in a rule that names one.
pub(super) fn named(rule: &str) -> Option<&str> {
    parts(rule)?.port.strip_prefix(OPENING)?.strip_suffix(CLOSING)
}

/// The port, in a rule as the kernel has it.
pub(super) fn port(rule: &str) -> Option<u16> {
    parts(rule)?.port.parse().ok()
}

/// What two rules have in common that differ in nothing but the port.
pub(super) fn template(rule: &str) -> Option<&str> {
    parts(rule).map(|parts| parts.before)
}

pub(super) fn with_port(rule: &str, port: u16) -> Arc<str> {
    format!("{}{port}", template(rule).unwrap_or(rule)).into()
}

pub(super) fn with_name(rule: &str, listener: &Listener) -> Arc<str> {
    format!("{}{}", template(rule).unwrap_or(rule), placeholder(listener)).into()
}

/// The same object with its rule put differently; only single rules lead to listeners.
pub(super) fn respelled(key: &Key, value: &Value, spell: impl Fn(&str) -> Option<Arc<str>>) -> (Key, Value) {
    match key {
        Key::Rule(place, rule, copy) => {
            let rule = spell(rule).unwrap_or_else(|| rule.clone());
            (Key::Rule(place.clone(), rule, *copy), value.clone())
        }
        other => (other.clone(), value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_names_replace_each_other() {
        let listener = Listener {
            family: portolan_model::Family::V6,
            protocol: "tcp".parse().unwrap(),
            name: "a/b:c/tcp/cluster".into(),
        };
        for (before, address) in [("-j REDIRECT --to-ports ", ""), ("-p tcp -j DNAT --to-destination ", "[fd00::1]:")] {
            let kernels = format!("{before}{address}38023");
            let ours = with_name(&kernels, &listener);
            assert_eq!(*ours, format!("{before}{address}<a/b:c/tcp/cluster>"));
            assert_eq!(named(&ours), Some("a/b:c/tcp/cluster"));
            assert_eq!((named(&kernels), port(&kernels), port(&ours)), (None, Some(38023), None));
            assert_eq!(*with_port(&ours, 38023), *kernels);
        }
        assert_eq!(named("-j KUBE-NODEPORT-HOST"), None);
    }
}
