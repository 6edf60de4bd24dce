//! Rendered rules name their listener; the kernel's rules have its port, which only the running daemon knows.

use std::sync::Arc;

use super::objects::Listener;
use crate::tables::{Key, Value};

const OPENING: char = '<';
const CLOSING: char = '>';
/// The words before the last one in the two kinds of rules.
const REDIRECT: &str = " -j REDIRECT --to-ports";
const TRANSLATE: &str = " -j DNAT --to-destination";

/// Stands in a rule in place of the port.
pub(super) fn placeholder(listener: &Listener) -> String {
    format!("{OPENING}{}{CLOSING}", listener.name)
}

/// A rule in two parts: what comes before the port, and the port or the listener's name, which ends the rule.
struct Parts<'a> {
    before: &'a str,
    port: &'a str,
}

/// `None` if the rule leads to no listener. A comment is never at the end of a rule.
fn parts(rule: &str) -> Option<Parts<'_>> {
    let start = rule.rfind(' ')? + 1;
    let (words, last) = (&rule[..start - 1], &rule[start..]);
    let port = match () {
        () if words.ends_with(REDIRECT) => start,
        () if words.ends_with(TRANSLATE) => start + target_start(last)?,
        () => return None,
    };
    let (before, port) = rule.split_at(port);
    Some(Parts { before, port })
}

/// The port of `ADDRESS:PORT` and `[ADDRESS]:PORT`; a listener's name has colons in it, too.
fn target_start(target: &str) -> Option<usize> {
    let address = if target.starts_with('[') { target.find(']')? } else { 0 };
    Some(address + target[address..].find(':')? + 1)
}

/// The listener's name, in a rendered rule.
pub(super) fn named(rule: &str) -> Option<&str> {
    parts(rule)?.port.strip_prefix(OPENING)?.strip_suffix(CLOSING)
}

/// The port, in a rule of the kernel.
pub(super) fn port(rule: &str) -> Option<u16> {
    parts(rule)?.port.parse().ok()
}

/// What two rules have in common that differ only in the port.
pub(super) fn template(rule: &str) -> Option<&str> {
    parts(rule).map(|parts| parts.before)
}

pub(super) fn with_port(rule: &str, port: u16) -> Arc<str> {
    format!("{}{port}", template(rule).unwrap_or(rule)).into()
}

pub(super) fn with_name(rule: &str, listener: &Listener) -> Arc<str> {
    format!("{}{}", template(rule).unwrap_or(rule), placeholder(listener)).into()
}

/// The same object with another rule; only single rules lead to listeners.
pub(super) fn with_rule(key: &Key, value: &Value, replace: impl Fn(&str) -> Option<Arc<str>>) -> (Key, Value) {
    match key {
        Key::Rule(place, rule, copy) => {
            let rule = replace(rule).unwrap_or_else(|| rule.clone());
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
        let comment = "-p tcp -m comment --comment \"x -j REDIRECT --to-ports 22\"";
        for (target, address) in [("-j REDIRECT --to-ports ", ""), ("-j DNAT --to-destination ", "[fd00::1]:")] {
            let before = format!("{comment} {target}");
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
