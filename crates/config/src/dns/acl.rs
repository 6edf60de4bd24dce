//! The plugin `acl`: which clients may ask for what.

use serde::Deserialize;

use super::block::{Block, is_within, normalized};
use super::directive::Directive;
use super::reader::Reader;

/// One list of rules. The first rule that matches a query decides; without one, the query is allowed.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AclDocument {
    /// The names that the rules are for; all, if there are none.
    pub zones: Vec<String>,
    /// Names below the zones that they are not for.
    pub except: Vec<String>,
    pub rules: Vec<AclRuleDocument>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AclRuleDocument {
    /// `allow`, `block` (REFUSED), `filter` (no records) or `drop`.
    pub action: String,
    /// Record types; all, if there are none.
    pub types: Vec<String>,
    /// Addresses or ranges of clients; all, if there are none.
    pub networks: Vec<String>,
}

/// A more specific block has rules of its own: those of this block are not for its names.
pub(super) fn read(reader: &mut Reader<'_>, block: &Block<'_>, all: &[Block<'_>], plugin: &Directive) {
    let own = plugin.arguments().iter().map(|zone| normalized(zone)).collect::<Vec<_>>();
    let zones = if own.is_empty() { block.zones.clone() } else { own };
    let others = all.iter().flat_map(|other| &other.zones);
    let except =
        others.filter(|other| !block.zones.contains(other) && block.zones.iter().any(|it| is_within(other, it)));
    let mut acl = AclDocument { zones, except: except.cloned().collect(), rules: Vec::new() };
    for line in &plugin.block {
        match rule(line) {
            Some(rule) => acl.rules.push(rule),
            None => reader.refuse(line, "write allow, block, filter or drop, with type TYPE… and net ADDRESS…"),
        }
    }
    reader.document.acl.push(acl);
}

fn rule(line: &Directive) -> Option<AclRuleDocument> {
    let action = Some(line.name()).filter(|name| matches!(*name, "allow" | "block" | "filter" | "drop"))?;
    let mut rule = AclRuleDocument { action: action.to_owned(), ..AclRuleDocument::default() };
    let mut current = None;
    for word in line.arguments() {
        match (word.as_str(), &mut current) {
            ("type", _) => current = Some(&mut rule.types),
            ("net", _) => current = Some(&mut rule.networks),
            (_, Some(list)) => list.push(word.clone()),
            (_, None) => return None,
        }
    }
    let is_all = |list: &[String]| list.iter().any(|word| word == "*");
    if is_all(&rule.types) {
        rule.types.clear();
    }
    if is_all(&rule.networks) {
        rule.networks.clear();
    }
    line.block.is_empty().then_some(rule)
}
