//! What the kernel holds of this mode, as objects. Rules of others are not looked at.

use std::collections::BTreeMap;

use portolan_model::Family;

use super::Iptables;
use super::chains::{is_list, is_static, is_tail, jumps};
use super::names::Kind;
use super::objects::{Key, Place, Table, Value};
use super::rule::Rule;
use super::save::{SavedRule, parse_save};
use crate::Objects;

/// A jump to our chains that is not one of ours; it goes.
const UNKNOWN_JUMP: u8 = u8::MAX;

/// Adds what one program has printed.
pub(super) fn read(family: Family, text: &str, objects: &mut Objects<Iptables>) {
    for saved in parse_save(text) {
        let Some(table) = Table::from_name(&saved.name) else { continue };
        let mut rules: BTreeMap<&str, Vec<&SavedRule>> = BTreeMap::new();
        for rule in &saved.rules {
            rules.entry(&rule.chain).or_default().push(rule);
        }
        for chain in &saved.chains {
            let place = Place::new(family, table, chain.as_str());
            read_chain(&place, rules.get(chain.as_str()).map_or(&[], Vec::as_slice), objects);
        }
    }
}

fn is_ours(table: Table, chain: &str) -> bool {
    let kind = Kind::of(chain);
    is_static(table, chain)
        || (table == Table::Nat && kind.is_some())
        || (table == Table::Filter && kind == Some(Kind::Firewall))
}

fn read_chain(place: &Place, rules: &[&SavedRule], objects: &mut Objects<Iptables>) {
    if is_list(place.table, &place.chain) {
        read_list(place, rules, objects);
    } else if is_ours(place.table, &place.chain) {
        let value = Value::rules(rules.iter().map(|rule| Rule::from(rule.text.as_str())));
        objects.0.insert(Key::Chain(place.clone()), value);
    } else {
        let leads_to_ours =
            |rule: &&&SavedRule| rule.target().is_some_and(|target| is_jump_target(place.table, target));
        rules.iter().filter(leads_to_ours).for_each(|rule| read_jump(place, rule, objects));
    }
}

/// Others may well mark packets for masquerading; nobody else has reason to jump to the rest.
fn is_jump_target(table: Table, target: &str) -> bool {
    is_static(table, target) && target != super::names::MARK_MASQUERADE
}

/// What belongs at the end counts as the end only if it is there.
fn read_list(place: &Place, rules: &[&SavedRule], objects: &mut Objects<Iptables>) {
    let is_tail = |rule: &&SavedRule| is_tail(place.table, &place.chain, &rule.text);
    let tail = rules.iter().rev().take_while(|rule| is_tail(rule)).count();
    let (listed, tail) = rules.split_at(rules.len() - tail);
    let tail = Value::rules(tail.iter().map(|rule| Rule::from(rule.text.as_str())));
    objects.0.insert(Key::List(place.clone()), tail);
    for rule in listed {
        let mut copy = 0;
        while objects.0.contains_key(&Key::Rule(place.clone(), rule.text.as_str().into(), copy)) {
            copy += 1;
        }
        objects.0.insert(Key::Rule(place.clone(), rule.text.as_str().into(), copy), Value::Present);
    }
}

fn read_jump(place: &Place, rule: &SavedRule, objects: &mut Objects<Iptables>) {
    let wanted = jumps(place.family).map(|(key, _)| key).find(|key| match key {
        Key::Jump(known, _, text) => known == place && **text == *rule.text,
        _ => false,
    });
    let key = wanted.filter(|key| !objects.0.contains_key(key));
    let key = key.unwrap_or_else(|| Key::Jump(place.clone(), UNKNOWN_JUMP, rule.text.as_str().into()));
    objects.0.insert(key, Value::Present);
}
