//! Elements read by their keys instead of a dump.

use std::ops::Range;

use portolan_kernel::nftables::{Batch, Element, ElementData, Found, Nftables, Options, SetData, SetSpec};
use portolan_model::Family;

use crate::common::{new_namespace, run};

const TABLE: &str = "test";
const MAP: &str = "things";
/// More than one request holds.
const COUNT: u32 = 2500;

fn element(number: u32) -> Element {
    let data = ElementData::Value((number + 1).to_be_bytes().to_vec());
    Element { key: number.to_be_bytes().to_vec(), key_end: None, data, comment: None }
}

fn map_of(numbers: Range<u32>) -> Nftables {
    new_namespace();
    let data = SetData::Value { data_type: 7, length: 4 };
    let spec = SetSpec { key_type: 7, key_fields: vec![4], data, ..SetSpec::default() };
    let mut batch = Batch::new();
    batch.add_table(Family::V4, TABLE);
    batch.add_set(Family::V4, TABLE, MAP, &spec);
    batch.add_elements(Family::V4, TABLE, MAP, numbers.map(element));
    let mut nftables = Nftables::open().expect("a handle can be opened");
    nftables.commit(batch).expect("a map can be written");
    nftables
}

fn look_up(nftables: &mut Nftables, numbers: Range<u32>) -> (Found, Vec<Element>) {
    let mut found = Vec::new();
    let mut keys = numbers.map(|number| number.to_be_bytes().to_vec());
    let outcome = nftables.look_up(Family::V4, TABLE, MAP, &mut keys, &mut |e| found.push(e));
    (outcome.expect("elements can be looked up"), found)
}

#[test]
fn all_elements_of_a_map_are_found_by_their_keys() {
    let mut nftables = map_of(0..COUNT);
    let (found, elements) = look_up(&mut nftables, 0..COUNT);
    assert_eq!(found, Found::Exactly);
    assert!(elements.into_iter().eq((0..COUNT).map(element)));
}

#[test]
fn an_element_that_is_missing_and_one_that_is_surplus_are_noticed() {
    let mut nftables = map_of(0..COUNT);
    let mut found = |numbers| look_up(&mut nftables, numbers).0;
    assert_eq!(found(0..COUNT - 1), Found::Others, "one element has no key");
    assert_eq!(found(0..COUNT + 1), Found::Others, "one key has no element");
    assert_eq!(found(1..COUNT + 1), Found::Others, "as many keys as elements, but others");
    assert_eq!(found(0..0), Found::Others);
}

#[test]
fn a_kernel_that_does_not_count_cannot_show_that_there_are_no_others() {
    map_of(0..COUNT);
    let mut nftables = Nftables::open_with(Options { hides_counts: true, ..Options::default() }).unwrap();
    let mut found = |numbers| look_up(&mut nftables, numbers).0;
    assert_eq!(found(0..COUNT), Found::AtLeast);
    assert_eq!(found(0..COUNT - 1), Found::AtLeast);
    assert_eq!(found(0..COUNT + 1), Found::Others);
}

#[test]
fn a_map_that_does_not_exist_has_no_elements() {
    let mut nftables = map_of(0..0);
    assert_eq!(look_up(&mut nftables, 0..0).0, Found::Exactly);
    run("nft", &["delete", "table", "ip", TABLE]);
    assert_eq!(look_up(&mut nftables, 0..1).0, Found::Others);
}

/// The proof needs a number that every way to change a map keeps right.
#[test]
fn the_kernel_counts_elements_through_refused_and_repeated_changes() {
    let mut nftables = map_of(0..100);
    let mut commit = |change: &dyn Fn(&mut Batch), succeeds: bool, count: u32| {
        let mut batch = Batch::new();
        change(&mut batch);
        assert_eq!(nftables.commit(batch).is_ok(), succeeds);
        assert_eq!(nftables.element_count(Family::V4, TABLE, MAP).unwrap(), Some(count));
        assert_eq!(look_up(&mut nftables, 0..count).0, Found::Exactly);
    };
    let add = |batch: &mut Batch, numbers: Range<u32>| {
        batch.add_elements(Family::V4, TABLE, MAP, numbers.map(element));
    };
    let delete = |batch: &mut Batch, numbers: Range<u32>| {
        batch.delete_elements(Family::V4, TABLE, MAP, numbers.map(element));
    };
    commit(&|batch| add(batch, 100..150), true, 150);
    commit(&|batch| add(batch, 149..200), false, 150);
    commit(&|batch| delete(batch, 140..151), false, 150);
    commit(&|batch| delete(batch, 120..150), true, 120);
    let replace = |batch: &mut Batch| {
        delete(batch, 50..120);
        add(batch, 50..80);
    };
    commit(&replace, true, 80);
    commit(&|batch| batch.flush_set(Family::V4, TABLE, MAP), true, 0);
}
