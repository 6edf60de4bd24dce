//! Rules in the kernel and listeners in this process. Rules lead to listeners, so listeners are opened first and closed
//! last.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use portolan_model::Family;

use super::listeners::Listeners;
use super::objects::{Key, Listener, Targets, Value};
use super::{Userspace, chains, ports};
use crate::drift::WatchForeignChanges;
use crate::tables::{self, Contents, RuleTally, TablesKernel, Variant};
use crate::{Change, Error, Objects, Observe, Program};

pub struct UserspaceKernel {
    tables: TablesKernel,
    listeners: Arc<Listeners>,
    /// Ports in rules at the last read that no listener of ours has, by the rest of the rule. An earlier process had
    /// them; if such a port is free, the listener gets it again.
    abandoned: HashMap<(tables::Place, String), u16>,
}

impl UserspaceKernel {
    pub fn open(variant: Variant, listeners: Arc<Listeners>) -> Result<Self, Error> {
        Ok(Self { tables: TablesKernel::open(variant, chains::layout())?, listeners, abandoned: HashMap::new() })
    }

    pub fn tally(&self) -> &RuleTally {
        self.tables.tally()
    }

    pub fn variant(&self) -> Variant {
        self.tables.variant()
    }

    pub(super) fn watch(&self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        self.tables.watch()
    }

    pub fn listeners(&self) -> &Arc<Listeners> {
        &self.listeners
    }

    /// Replaces ports with the names of our listeners.
    fn named(&mut self, contents: Contents) -> impl Iterator<Item = (Key, Value)> {
        let listeners = self.listeners.clone();
        self.abandoned.clear();
        for key in contents.keys() {
            self.note_port(key);
        }
        contents.into_iter().map(move |(key, value)| {
            let place = key.place().clone();
            let replace = |rule: &str| {
                let listener = listeners.at(place.family, protocol_of(rule)?, ports::port(rule)?)?;
                Some(ports::with_name(rule, &listener))
            };
            let (key, value) = ports::with_rule(&key, &value, replace);
            (Key::Table(key), Value::Table(value))
        })
    }

    fn note_port(&mut self, key: &tables::Key) {
        let tables::Key::Rule(place, rule, _) = key else { return };
        let (Some(template), Some(port)) = (ports::template(rule), ports::port(rule)) else { return };
        let is_ours =
            protocol_of(rule).is_some_and(|protocol| self.listeners.at(place.family, protocol, port).is_some());
        if !is_ours {
            self.abandoned.insert((place.clone(), template.to_owned()), port);
        }
    }

    /// The ports in existing rules, for listeners that are to be opened.
    fn preferred_ports(&self, added: &BTreeMap<Key, Value>) -> HashMap<Listener, u16> {
        let mut preferred_ports = HashMap::new();
        if self.abandoned.is_empty() {
            return preferred_ports;
        }
        for key in added.keys() {
            let Key::Table(tables::Key::Rule(place, rule, _)) = key else { continue };
            let (Some(listener), Some(template)) = (listener_of(place, rule), ports::template(rule)) else { continue };
            if let Some(port) = self.abandoned.get(&(place.clone(), template.to_owned())) {
                preferred_ports.insert(listener, *port);
            }
        }
        preferred_ports
    }

    /// Listeners that cannot be opened are skipped, with the rules that lead to them; the first error is returned.
    fn open_listeners(&mut self, change: &Change<Userspace>) -> Option<Error> {
        let preferred_ports = self.preferred_ports(&change.added);
        let mut failure = None;
        for (listener, targets) in listeners(&change.added) {
            if let Err(error) = self.listeners.lead(listener, targets, preferred_ports.get(listener).copied()) {
                failure.get_or_insert(error);
            }
        }
        failure
    }

    /// Replaces names with ports. Rules to a listener that is not open are left out.
    fn resolved(&self, objects: &BTreeMap<Key, Value>) -> Contents {
        let resolve = |(key, value): (&Key, &Value)| {
            let (Key::Table(key), Value::Table(value)) = (key, value) else { return None };
            let tables::Key::Rule(place, rule, copy) = key else { return Some((key.clone(), value.clone())) };
            let Some(listener) = listener_of(place, rule) else { return Some((key.clone(), value.clone())) };
            let rule = ports::with_port(rule, self.listeners.port(&listener)?);
            Some((tables::Key::Rule(place.clone(), rule, *copy), value.clone()))
        };
        objects.iter().filter_map(resolve).collect()
    }
}

fn listeners(objects: &BTreeMap<Key, Value>) -> impl Iterator<Item = (&Listener, &Targets)> {
    objects.iter().filter_map(|(key, value)| match (key, value) {
        (Key::Listener(listener), Value::Targets(targets)) => Some((listener, targets)),
        _ => None,
    })
}

/// The listener that a rule names.
fn listener_of(place: &tables::Place, rule: &str) -> Option<Listener> {
    let name = ports::named(rule)?.into();
    Some(Listener { family: place.family, protocol: protocol_of(rule)?, name })
}

/// Every rule to a listener matches one protocol.
fn protocol_of(rule: &str) -> Option<portolan_model::Protocol> {
    let rest = rule.split_once("-p ")?.1;
    rest.split(' ').next()?.parse().ok()
}

impl Observe<Userspace> for UserspaceKernel {
    fn read(&mut self) -> Result<Objects<Userspace>, Error> {
        let contents = self.tables.read()?;
        let mut objects: BTreeMap<Key, Value> = self.named(contents).collect();
        let listeners = self.listeners.all().into_iter();
        objects.extend(listeners.map(|(listener, targets)| (Key::Listener(listener), Value::Targets(targets))));
        Ok(Objects(objects))
    }

    fn is_undisturbed(&mut self) -> Result<bool, Error> {
        self.tables.is_undisturbed()
    }

    fn serves(&self, family: Family) -> bool {
        self.tables.serves(family)
    }
}

impl Program<Userspace> for UserspaceKernel {
    fn apply(&mut self, change: &Change<Userspace>, _: bool) -> Result<(), Error> {
        let removed = self.resolved(&change.removed);
        let failure = self.open_listeners(change);
        self.tables.write(&removed, &self.resolved(&change.added))?;
        for (listener, _) in listeners(&change.removed) {
            if !change.added.contains_key(&Key::Listener(listener.clone())) {
                self.listeners.close(listener)?;
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
