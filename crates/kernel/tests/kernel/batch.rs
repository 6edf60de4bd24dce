//! Batches against the kernel: sizes, refusals, generations.

use std::sync::Arc;

use portolan_kernel::Error;
use portolan_kernel::nftables::{Batch, Element, ElementData, Expression, Nftables, SetData, SetSpec, Verdict};
use portolan_model::Family;

use crate::common::{new_namespace, run};

const TABLE: &str = "test";
const ADDRESS_PROTOCOL_PORT: u32 = 7 << 12 | 12 << 6 | 13;

fn services() -> SetSpec {
    SetSpec { key_type: ADDRESS_PROTOCOL_PORT, key_fields: vec![4, 1, 2], data: SetData::Verdict, ..SetSpec::default() }
}

fn service(number: u32) -> Element {
    let mut key = (0x0a60_0000 + number).to_be_bytes().to_vec();
    key.extend_from_slice(&[6, 0, 0, 0, 0, 80, 0, 0]);
    Element { key, key_end: None, data: ElementData::Verdict(Verdict::Goto(Arc::from("target"))), comment: None }
}

/// A table with an empty chain and an empty map.
fn skeleton() -> Batch {
    let mut batch = Batch::new();
    batch.add_table(Family::V4, TABLE);
    batch.add_chain(Family::V4, TABLE, "target", None);
    batch.add_set(Family::V4, TABLE, "services", &services());
    batch
}

fn elements(nftables: &mut Nftables) -> Vec<Element> {
    let mut elements = Vec::new();
    nftables.elements(Family::V4, TABLE, "services", &mut |e| elements.push(e)).expect("elements can be read");
    elements.sort_by(|one, other| one.key.cmp(&other.key));
    elements
}

fn one_element(number: u32) -> Batch {
    let mut batch = Batch::new();
    batch.add_elements(Family::V4, TABLE, "services", [service(number)].iter());
    batch
}

#[test]
fn an_empty_batch_is_no_commit() {
    new_namespace();
    let mut nftables = Nftables::open().unwrap();
    let before = nftables.generation().unwrap();
    nftables.commit(Batch::new()).unwrap();
    assert_eq!(nftables.generation().unwrap(), before);
}

#[test]
fn a_hundred_thousand_elements_are_one_batch() {
    new_namespace();
    let wanted: Vec<Element> = (0..100_000).map(service).collect();
    let mut batch = skeleton();
    batch.add_elements(Family::V4, TABLE, "services", wanted.iter());
    let mut nftables = Nftables::open().unwrap();
    let before = nftables.generation().unwrap();
    nftables.commit(batch).unwrap();
    assert_eq!(nftables.generation().unwrap(), before + 1);
    // Not `assert_eq`, which would print a hundred thousand elements.
    assert!(elements(&mut nftables) == wanted);
}

#[test]
fn a_refused_batch_changes_nothing_and_names_the_messages() {
    new_namespace();
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(skeleton()).unwrap();
    nftables.commit(one_element(1)).unwrap();
    let before = run("nft", &["list", "ruleset"]);

    let mut batch = one_element(2);
    batch.add_rule(Family::V4, TABLE, "missing", &[Expression::Counter], None);
    batch.add_elements(Family::V4, TABLE, "services", [service(3), service(1), service(4)].iter());
    batch.delete_set(Family::V6, TABLE, "other");
    let error = nftables.commit(batch).unwrap_err();

    let Error::Refused { refusals, .. } = &error else {
        panic!("{error}");
    };
    let messages: Vec<(&str, i32)> = refusals.iter().map(|refusal| (refusal.message.as_str(), refusal.errno)).collect();
    assert_eq!(
        messages,
        [
            ("add rule in chain missing of table ip test", libc::ENOENT),
            ("add element in set services (key 0a6000010600000000500000) of table ip test", libc::EEXIST),
            ("delete set other of table ip6 test", libc::ENOENT),
        ]
    );
    assert_eq!(run("nft", &["list", "ruleset"]), before);
    nftables.commit(one_element(2)).unwrap();
    assert_eq!(elements(&mut nftables), [service(1), service(2)]);
}

#[test]
fn a_batch_based_on_an_old_generation_is_outdated() {
    new_namespace();
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(skeleton()).unwrap();
    let generation = nftables.generation().unwrap();
    let mut current = one_element(1);
    current.based_on(generation);
    nftables.commit(current).unwrap();

    run("nft", &["add", "table", "ip", "foreign"]);
    let mut old = one_element(2);
    old.based_on(generation + 1);
    let error = nftables.commit(old).unwrap_err();
    assert!(matches!(error, Error::Outdated { .. }), "{error}");
    assert_eq!(elements(&mut nftables), [service(1)]);
}
