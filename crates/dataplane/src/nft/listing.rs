//! Objects as `nft list table` prints them, so that a plan can be read and compared without a kernel.

use std::collections::BTreeMap;
use std::fmt::Write;

use portolan_model::Family;

use super::affinity::is_clients_map;
use super::objects::{Chain, Key, Value, hook_text};
use super::sets::{Data, LEARNED_SIZE, SetName, clients_type_text};
use super::{Nftables, TABLE};
use crate::Objects;

pub fn listing(objects: &Objects<Nftables>) -> String {
    Family::BOTH.into_iter().map(|family| table(objects, family)).collect()
}

fn table(objects: &Objects<Nftables>, family: Family) -> String {
    let mut blocks = Vec::new();
    let mut elements: BTreeMap<SetName, Vec<String>> = BTreeMap::new();
    for (key, value) in &objects.0 {
        match (key, value) {
            (Key::Element(it, set, key), value) if *it == family => {
                elements.entry(*set).or_default().push(element(&key.to_string(), value));
            }
            (Key::Chain(it, name), Value::Chain(chain)) if *it == family => blocks.push(chain_block(name, chain)),
            _ => {}
        }
    }
    let is_there = |set: &SetName| objects.0.contains_key(&Key::Set(family, set.name().into()));
    let sets = SetName::ALL.into_iter().filter(is_there);
    let sets = sets.map(|set| set_block(set, family, elements.get(&set).map_or(&[], Vec::as_slice)));
    let clients = client_maps(objects, family);
    let blocks: Vec<String> = sets.chain(clients).chain(blocks).collect();
    format!("table {} {TABLE} {{\n{}}}\n", family.nft_name(), blocks.join("\n"))
}

/// The maps of Services with session affinity; their elements belong to packets.
fn client_maps(objects: &Objects<Nftables>, family: Family) -> impl Iterator<Item = String> {
    let names = objects.0.keys().filter_map(move |key| match key {
        Key::Set(it, name) if *it == family && is_clients_map(name) => Some(name),
        _ => None,
    });
    let kind = clients_type_text(family);
    names.map(move |name| {
        format!("\tmap {name} {{\n\t\t{kind}\n\t\tsize {LEARNED_SIZE}\n\t\tflags dynamic,timeout\n\t}}\n")
    })
}

fn set_block(set: SetName, family: Family, elements: &[String]) -> String {
    let kind = if set.data() == Data::None { "set" } else { "map" };
    let mut text = format!("\t{kind} {} {{\n\t\t{}\n", set.name(), set.type_text(family));
    if set.is_counted() {
        _ = writeln!(text, "\t\tsize {LEARNED_SIZE}\n\t\tflags dynamic");
    }
    if set == SetName::Sources {
        text.push_str("\t\tflags interval\n");
    }
    if !elements.is_empty() {
        _ = writeln!(text, "\t\telements = {{ {} }}", elements.join(",\n\t\t\t     "));
    }
    text + "\t}\n"
}

fn element(key: &str, value: &Value) -> String {
    match value {
        Value::Frontend(frontend) => {
            let comment = frontend.comment.as_ref().map_or(String::new(), |comment| format!(" comment \"{comment}\""));
            format!("{key}{comment} : 0x00000000 . {}", frontend.dispatch_key)
        }
        other => format!("{key}{other}"),
    }
}

fn chain_block(name: &str, chain: &Chain) -> String {
    let mut text = format!("\tchain {name} {{\n");
    if let Some(hook) = &chain.hook {
        _ = writeln!(text, "\t\t{}", hook_text(hook));
    }
    for rule in &chain.rules {
        _ = writeln!(text, "\t\t{rule}");
    }
    text + "\t}\n"
}
