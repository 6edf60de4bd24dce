//! Reads this mode's objects from the kernel. Foreign rules are skipped.

use std::collections::BTreeMap;

use portolan_model::Family;

use super::objects::{Key, Place, Table, Value};
use super::rule::Rule;
use super::save::{SavedRule, parse_save};
use super::{Contents, Layout};

/// An unknown jump to our chains; it is removed.
const UNKNOWN_JUMP: u8 = u8::MAX;

/// The output of one program, and where its objects go.
pub(crate) struct Reader<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) family: Family,
    pub(crate) contents: &'a mut Contents,
}

impl Reader<'_> {
    pub(crate) fn read(&mut self, text: &str) {
        for saved in parse_save(text) {
            let Some(table) = Table::from_name(&saved.name) else { continue };
            let mut rules: BTreeMap<&str, Vec<&SavedRule>> = BTreeMap::new();
            for rule in &saved.rules {
                rules.entry(&rule.chain).or_default().push(rule);
            }
            for chain in &saved.chains {
                let place = Place::new(self.family, table, chain.as_str());
                self.read_chain(&place, rules.get(chain.as_str()).map_or(&[], Vec::as_slice));
            }
        }
    }

    fn read_chain(&mut self, place: &Place, rules: &[&SavedRule]) {
        if self.layout.is_list(place.table, &place.chain) {
            self.read_list(place, rules);
        } else if self.layout.owns(place.table, &place.chain) {
            let value = Value::rules(rules.iter().map(|rule| Rule::from(rule.text.as_str())));
            self.contents.insert(Key::Chain(place.clone()), value);
        } else {
            let is_target = |target: String| self.layout.is_jump_target(place.table, &target);
            let jumps: Vec<_> = rules.iter().filter(|rule| rule.target().is_some_and(is_target)).collect();
            jumps.into_iter().for_each(|rule| self.read_jump(place, rule));
        }
    }

    /// Rules that belong at the end count as the tail only if they are there.
    fn read_list(&mut self, place: &Place, rules: &[&SavedRule]) {
        let is_tail = |rule: &&SavedRule| (self.layout.is_tail)(place.table, &place.chain, &rule.text);
        let tail = rules.iter().rev().take_while(|rule| is_tail(rule)).count();
        let (listed, tail) = rules.split_at(rules.len() - tail);
        let tail = Value::rules(tail.iter().map(|rule| Rule::from(rule.text.as_str())));
        self.contents.insert(Key::List(place.clone()), tail);
        for rule in listed {
            let mut copy = 0;
            while self.contents.contains_key(&Key::Rule(place.clone(), rule.text.as_str().into(), copy)) {
                copy += 1;
            }
            self.contents.insert(Key::Rule(place.clone(), rule.text.as_str().into(), copy), Value::Present);
        }
    }

    fn read_jump(&mut self, place: &Place, rule: &SavedRule) {
        let wanted = self.layout.jumps(place.family).map(|(key, _)| key).find(|key| match key {
            Key::Jump(known, _, text) => known == place && **text == *rule.text,
            _ => false,
        });
        let key = wanted.filter(|key| !self.contents.contains_key(key));
        let key = key.unwrap_or_else(|| Key::Jump(place.clone(), UNKNOWN_JUMP, rule.text.as_str().into()));
        self.contents.insert(key, Value::Present);
    }
}
