//! Objects as the node's own tools print them: `ipvsadm`, `ipset`, `ip` and `iptables-save`.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::Ipvs;
use super::objects::{Key, Value, destinations};
use super::sets::SetName;
use crate::Objects;
use crate::tables::{self, Contents};

pub fn listing(objects: &Objects<Ipvs>) -> String {
    let mut text = String::new();
    servers(objects, &mut text);
    addresses(objects, &mut text);
    sets(objects, &mut text);
    let rules: Contents = objects
        .0
        .iter()
        .filter_map(|(key, value)| match (key, value) {
            (Key::Rules(key), Value::Rules(value)) => Some((key.clone(), value.clone())),
            _ => None,
        })
        .collect();
    text + &tables::listing(&rules)
}

/// Servers and destinations are separate objects, and listed together.
fn servers(objects: &Objects<Ipvs>, text: &mut String) {
    text.push_str("# ipvsadm -ln\n");
    for (key, value) in &objects.0 {
        let Key::Server(server) = key else { continue };
        _ = writeln!(text, "{server}{value}");
        for (endpoint, value) in destinations(&objects.0, *server) {
            _ = writeln!(text, "  -> {endpoint}{value}");
        }
    }
}

fn addresses(objects: &Objects<Ipvs>, text: &mut String) {
    _ = writeln!(text, "# ip address show {}", super::DEVICE);
    for key in objects.0.keys() {
        if let Key::Address(address) = key {
            let (family, length) = if address.is_ipv4() { ("inet", 32) } else { ("inet6", 128) };
            _ = writeln!(text, "    {family} {address}/{length}");
        }
    }
}

fn sets(objects: &Objects<Ipvs>, text: &mut String) {
    text.push_str("# ipset list\n");
    let mut members: BTreeMap<SetName, String> = BTreeMap::new();
    for key in objects.0.keys() {
        if let Key::Entry(name, entry) = key {
            _ = writeln!(members.entry(*name).or_default(), "  {entry}");
        }
    }
    for (key, value) in &objects.0 {
        let Key::Set(name) = key else { continue };
        _ = writeln!(text, "Name: {name} Type:{value}");
        text.push_str(members.get(name).map_or("", String::as_str));
    }
}
