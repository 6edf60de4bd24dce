//! Elements of every kind of set: written, read back, listed and deleted.

use std::sync::Arc;

use portolan_kernel::nftables::{Batch, Element, ElementData, Nftables, SetData, SetSpec, Verdict};
use portolan_model::Family;

use crate::common::{new_namespace, run};

const TABLE: &str = "test";
const SET: &str = "things";
const ADDRESS: u32 = 7;
const PORT: u32 = 13;

fn element(key: &[u8], key_end: Option<&[u8]>, data: ElementData) -> Element {
    Element { key: key.to_vec(), key_end: key_end.map(<[u8]>::to_vec), data, comment: None }
}

fn read(nftables: &mut Nftables) -> Vec<Element> {
    let mut elements = Vec::new();
    nftables.elements(Family::V4, TABLE, SET, &mut |e| elements.push(e)).expect("elements can be read");
    elements.sort_by(|one, other| one.key.cmp(&other.key));
    elements
}

fn table_with(spec: &SetSpec) -> Batch {
    let mut batch = Batch::new();
    batch.add_table(Family::V4, TABLE);
    batch.add_chain(Family::V4, TABLE, "target", None);
    batch.add_set(Family::V4, TABLE, SET, spec);
    batch
}

fn listed() -> String {
    run("nft", &["list", "set", "ip", TABLE, SET])
}

#[test]
fn comments_are_listed_and_read_back() {
    new_namespace();
    let spec = SetSpec { key_type: ADDRESS, key_fields: vec![4], data: SetData::Verdict, ..SetSpec::default() };
    let verdicts = [
        Verdict::Accept,
        Verdict::Drop,
        Verdict::Return,
        Verdict::Jump(Arc::from("target")),
        Verdict::Goto(Arc::from("target")),
    ];
    let mut elements: Vec<Element> = verdicts
        .into_iter()
        .zip(0..)
        .map(|(verdict, last)| element(&[10, 0, 0, last], None, ElementData::Verdict(verdict)))
        .collect();
    elements[1].comment = Some(Arc::from("shop/cart:http"));
    let mut batch = table_with(&spec);
    batch.add_elements(Family::V4, TABLE, SET, elements.iter());
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(batch).unwrap();
    assert_eq!(read(&mut nftables), elements);
    let listed = run("nft", &["list", "map", "ip", TABLE, SET]);
    assert!(listed.contains("10.0.0.1 comment \"shop/cart:http\" : drop"), "{listed}");
    assert!(listed.contains("10.0.0.4 : goto target"), "{listed}");
}

#[test]
fn values_are_read_back_and_replaced_in_one_batch() {
    new_namespace();
    let spec = SetSpec {
        key_type: ADDRESS,
        key_fields: vec![4],
        data: SetData::Value { data_type: ADDRESS << 6 | PORT, length: 8 },
        ..SetSpec::default()
    };
    let value = |last| ElementData::Value(vec![10, 1, 0, last, 0, 80, 0, 0]);
    let old = [element(&[10, 0, 0, 1], None, value(1)), element(&[10, 0, 0, 2], None, value(2))];
    let mut batch = table_with(&spec);
    batch.add_elements(Family::V4, TABLE, SET, old.iter());
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(batch).unwrap();
    assert_eq!(read(&mut nftables), old);

    let new = [element(&[10, 0, 0, 1], None, value(9)), old[1].clone()];
    let mut batch = Batch::new();
    batch.delete_elements(Family::V4, TABLE, SET, new[..1].iter());
    batch.add_elements(Family::V4, TABLE, SET, new[..1].iter());
    nftables.commit(batch).unwrap();
    assert_eq!(read(&mut nftables), new);

    let mut batch = Batch::new();
    batch.flush_set(Family::V4, TABLE, SET);
    nftables.commit(batch).unwrap();
    assert_eq!(read(&mut nftables), []);
}

#[test]
fn ranges_of_concatenated_fields() {
    new_namespace();
    let spec = SetSpec { key_type: ADDRESS << 6 | PORT, key_fields: vec![4, 2], interval: true, ..SetSpec::default() };
    let ranges = [
        element(&[10, 0, 0, 0, 0, 80, 0, 0], Some(&[10, 0, 0, 255, 0, 80, 0, 0]), ElementData::None),
        element(&[10, 1, 0, 1, 0, 0, 0, 0], Some(&[10, 1, 0, 1, 255, 255, 0, 0]), ElementData::None),
    ];
    let mut batch = table_with(&spec);
    batch.add_elements(Family::V4, TABLE, SET, ranges.iter());
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(batch).unwrap();
    assert_eq!(read(&mut nftables), ranges);
    let text = listed();
    assert!(text.contains("10.0.0.0/24 . 80"), "{text}");
    assert!(text.contains("10.1.0.1 . 0-65535"), "{text}");

    let mut batch = Batch::new();
    batch.delete_elements(Family::V4, TABLE, SET, ranges[..1].iter());
    nftables.commit(batch).unwrap();
    assert_eq!(read(&mut nftables), ranges[1..]);
}

/// Touching ranges, a single key, and both ends of the address space.
#[test]
fn ranges_of_a_single_field() {
    new_namespace();
    let spec = SetSpec { key_type: ADDRESS, key_fields: vec![4], interval: true, ..SetSpec::default() };
    let range =
        |start: [u8; 4], end: Option<[u8; 4]>| element(&start, end.as_ref().map(|end| &end[..]), ElementData::None);
    let ranges = [
        range([0, 0, 0, 0], Some([0, 255, 255, 255])),
        range([10, 0, 0, 0], Some([10, 0, 0, 255])),
        range([10, 0, 1, 0], Some([10, 0, 1, 127])),
        range([10, 0, 2, 5], None),
        range([240, 0, 0, 0], Some([255, 255, 255, 255])),
    ];
    let mut batch = table_with(&spec);
    batch.add_ranges(Family::V4, TABLE, SET, ranges.iter());
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(batch).unwrap();
    assert_eq!(read(&mut nftables), ranges);
    let text = listed();
    for part in ["0.0.0.0/8", "10.0.0.0/24", "10.0.1.0/25", "10.0.2.5", "240.0.0.0/4"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }

    let (gone, left): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|r| r.key[2] != 1);
    let mut batch = Batch::new();
    batch.delete_ranges(Family::V4, TABLE, SET, gone.iter());
    nftables.commit(batch).unwrap();
    assert_eq!(read(&mut nftables), left);
}

#[test]
fn ranges_that_the_nft_program_has_written() {
    new_namespace();
    run(
        "nft",
        &["add table ip test;
             add set ip test things { type ipv4_addr; flags interval; };
             add element ip test things { 10.0.0.0/24, 10.0.2.5, 240.0.0.0/4 }"],
    );
    let mut nftables = Nftables::open().unwrap();
    let expected = [
        element(&[10, 0, 0, 0], Some(&[10, 0, 0, 255]), ElementData::None),
        element(&[10, 0, 2, 5], None, ElementData::None),
        element(&[240, 0, 0, 0], Some(&[255; 4]), ElementData::None),
    ];
    assert_eq!(read(&mut nftables), expected);
}
