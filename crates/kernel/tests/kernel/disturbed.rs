//! Lost replies, and dumps during foreign commits.

use portolan_kernel::Error;
use portolan_kernel::nftables::{Batch, Element, ElementData, Expression, Nftables, Options, SetData, SetSpec};
use portolan_model::Family;

use crate::common::new_namespace;

const TABLE: &str = "test";

fn chains(prefix: &str, count: u32) -> Batch {
    let mut batch = Batch::new();
    batch.add_table(Family::V4, TABLE);
    for number in 0..count {
        batch.add_chain(Family::V4, TABLE, &format!("{prefix}{number}"), None);
    }
    batch
}

/// A handle whose receive queue holds only a few replies.
fn with_small_queue() -> Nftables {
    Nftables::open_with(Options { receive_buffer: Some(4096), acknowledge_all: true, ..Options::default() })
        .expect("a handle can be opened")
}

#[test]
fn a_batch_whose_answers_are_lost_has_an_unknown_outcome() {
    new_namespace();
    let mut nftables = with_small_queue();
    let error = nftables.commit(chains("many-", 500)).unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    assert_eq!(error.errno(), Some(libc::ENOBUFS));
    // It was committed: the kernel has the objects.
    assert_eq!(nftables.chains(Family::V4, TABLE).unwrap().len(), 500);
}

#[test]
fn a_handle_that_lost_answers_still_works() {
    new_namespace();
    let mut nftables = with_small_queue();
    for round in 0..5 {
        let many = chains(&format!("many-{round}-"), 500);
        nftables.commit(many).unwrap_err();
        // The next outcome is known and correct, success or failure.
        nftables.commit(chains(&format!("one-{round}-"), 1)).unwrap();
        let mut bad = Batch::new();
        bad.add_rule(Family::V4, TABLE, "missing", &[Expression::Counter], None);
        let error = nftables.commit(bad).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert_eq!(error.errno(), Some(libc::ENOENT));
    }
    assert_eq!(nftables.chains(Family::V4, TABLE).unwrap().len(), 5 * 501);
}

#[test]
fn a_batch_with_more_refusals_than_the_queue_holds_is_refused() {
    new_namespace();
    let mut nftables = with_small_queue();
    let mut batch = chains("chain-", 1);
    for number in 0..500 {
        let chain = format!("missing-{number}");
        batch.add_rule(Family::V4, TABLE, &chain, &[Expression::Counter], None);
    }
    let error = nftables.commit(batch).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    assert_eq!(nftables.tables(Family::V4).unwrap(), [""; 0]);
    nftables.commit(chains("chain-", 1)).unwrap();
}

const KEYS: u32 = 3000;
const COMMITS: u32 = 100;

fn stamped(stamp: u32) -> Vec<Element> {
    (0..KEYS)
        .map(|key| Element {
            key: key.to_be_bytes().to_vec(),
            key_end: None,
            data: ElementData::Value(stamp.to_be_bytes().to_vec()),
            comment: None,
        })
        .collect()
}

/// Replaces all elements, so that a dump with two stamps in it is a torn one.
fn restamp(nftables: &mut Nftables, stamp: u32) {
    let elements = stamped(stamp);
    let mut batch = Batch::new();
    batch.flush_set(Family::V4, TABLE, "stamps");
    batch.add_elements(Family::V4, TABLE, "stamps", elements.iter());
    nftables.commit(batch).expect("elements can be replaced");
}

fn stamps_table() -> Batch {
    let spec = SetSpec {
        key_type: 7,
        key_fields: vec![4],
        data: SetData::Value { data_type: 7, length: 4 },
        ..SetSpec::default()
    };
    let mut batch = Batch::new();
    batch.add_table(Family::V4, TABLE);
    batch.add_set(Family::V4, TABLE, "stamps", &spec);
    batch.add_elements(Family::V4, TABLE, "stamps", stamped(0).iter());
    batch
}

fn dump(nftables: &mut Nftables) -> Vec<Element> {
    let mut elements = Vec::new();
    nftables.elements(Family::V4, TABLE, "stamps", &mut |e| elements.push(e)).expect("elements can be read");
    elements.sort_by(|one, other| one.key.cmp(&other.key));
    elements
}

#[test]
fn a_dump_during_commits_is_of_one_moment() {
    new_namespace();
    // The writer ends long before this timeout.
    let strict_for = Some(std::time::Duration::from_secs(120));
    let mut nftables = Nftables::open_with(Options { strict_for, ..Options::default() }).unwrap();
    nftables.commit(stamps_table()).unwrap();
    std::thread::scope(|scope| {
        // A limited number of commits, so that a failure below ends the test.
        let writer = scope.spawn(|| {
            let mut writer = Nftables::open().expect("a handle can be opened");
            (1..=COMMITS).for_each(|stamp| restamp(&mut writer, stamp));
        });
        while !writer.is_finished() {
            assert_of_one_moment(&dump(&mut nftables));
        }
    });
    assert!(dump(&mut nftables) == stamped(COMMITS));
}

fn assert_of_one_moment(elements: &[Element]) {
    let ElementData::Value(stamp) = &elements[0].data else {
        panic!("{:?}", elements[0]);
    };
    let stamp: [u8; 4] = stamp[..].try_into().expect("a stamp has four bytes");
    assert!(elements == stamped(u32::from_be_bytes(stamp)));
}
