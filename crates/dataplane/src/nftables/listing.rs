//! Objects as `nft list table` prints them, so that a plan can be read and compared without a kernel.

use std::collections::BTreeMap;
use std::fmt::Write;

use portolan_model::Family;

use super::objects::{Chain, Key, Value, hook_text};
use super::sets::{Data, SetName};
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
    let blocks: Vec<String> = sets.chain(blocks).collect();
    format!("table {} {TABLE} {{\n{}}}\n", family.nft_name(), blocks.join("\n"))
}

fn set_block(set: SetName, family: Family, elements: &[String]) -> String {
    let kind = if set.data() == Data::None { "set" } else { "map" };
    let mut text = format!("\t{kind} {} {{\n\t\t{}\n", set.name(), set.type_text(family));
    if set.is_learned() {
        let timeout = if set.is_counted() { "" } else { ",timeout" };
        _ = writeln!(text, "\t\tsize 65535\n\t\tflags dynamic{timeout}");
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
