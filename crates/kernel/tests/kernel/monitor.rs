//! Foreign changes are notified; our own and those of other tables are not.

use std::time::Duration;

use portolan_kernel::nftables::{Batch, Element, ElementData, ForeignChange, Monitor, Nftables, SetSpec};
use portolan_model::Family;

use crate::common::{new_namespace, run};

const TABLE: &str = "test";
/// Much longer than a notification takes, which arrives with the commit.
const LONG: Option<Duration> = Some(Duration::from_secs(20));
const NOW: Option<Duration> = Some(Duration::ZERO);

/// With the generation of the last commit.
fn changed(family: Family, what: &str) -> Option<ForeignChange> {
    let mut nftables = Nftables::open().expect("a handle can be opened");
    let generation = nftables.generation().expect("the kernel counts commits");
    let what = what.to_owned();
    Some(ForeignChange::Changed { family, what, generation, process: None })
}

/// The next change, which `nft` has made.
fn next(monitor: &mut Monitor, timeout: Option<Duration>) -> Option<ForeignChange> {
    next_by(monitor, timeout, "nft (pid ")
}

/// The next change, which a process with such a name has made.
fn next_by(monitor: &mut Monitor, timeout: Option<Duration>, by: &str) -> Option<ForeignChange> {
    let change = monitor.wait(TABLE, timeout).expect("the socket is open")?;
    Some(match change {
        ForeignChange::Changed { family, what, generation, process } => {
            let process = process.expect("the kernel names the process");
            assert!(process.starts_with(by), "{process}");
            ForeignChange::Changed { family, what, generation, process: None }
        }
        other => other,
    })
}

fn own_table(elements: u32) -> Batch {
    let spec = SetSpec { key_type: 7, key_fields: vec![4], ..SetSpec::default() };
    let elements: Vec<Element> = (0..elements)
        .map(|number| Element {
            key: number.to_be_bytes().to_vec(),
            key_end: None,
            data: ElementData::None,
            comment: None,
        })
        .collect();
    let mut batch = Batch::new();
    for family in [Family::V4, Family::V6] {
        batch.add_table(family, TABLE);
        batch.add_chain(family, TABLE, "dispatch", None);
    }
    batch.add_set(Family::V4, TABLE, "things", &spec);
    batch.add_elements(Family::V4, TABLE, "things", elements.iter());
    batch
}

fn opened() -> (Nftables, Monitor) {
    let nftables = Nftables::open().expect("a handle can be opened");
    let monitor = Monitor::open(nftables.port_id()).expect("a monitor can be opened");
    (nftables, monitor)
}

#[test]
fn own_commits_are_ignored_however_large() {
    new_namespace();
    let (mut nftables, mut monitor) = opened();
    nftables.commit(own_table(100_000)).unwrap();
    assert_eq!(monitor.wait(TABLE, NOW).unwrap(), None);
    run("nft", &["delete", "element", "ip", TABLE, "things", "{ 0.0.0.7 }"]);
    assert_eq!(next(&mut monitor, LONG), changed(Family::V4, "deleted element in set things"));
}

#[test]
fn foreign_changes_are_notified() {
    new_namespace();
    let (mut nftables, mut monitor) = opened();
    nftables.commit(own_table(1)).unwrap();
    for (command, family, what) in [
        ("delete chain ip test dispatch", Family::V4, "deleted chain dispatch"),
        ("add chain ip6 test more", Family::V6, "added chain more"),
        ("add rule ip6 test more accept", Family::V6, "added rule in chain more"),
        ("flush chain ip6 test more", Family::V6, "deleted rule in chain more"),
        ("add counter ip6 test count", Family::V6, "added object count"),
        ("delete table ip test", Family::V4, "deleted set things"),
    ] {
        run("nft", &[command]);
        assert_eq!(next(&mut monitor, LONG), changed(family, what), "{command}");
        assert_eq!(monitor.wait(TABLE, NOW).unwrap(), None, "{command}: one commit is reported once");
    }
}

#[test]
fn a_commit_that_changes_both_families_is_notified_for_both() {
    new_namespace();
    let (mut nftables, mut monitor) = opened();
    nftables.commit(own_table(1)).unwrap();
    run("nft", &["flush", "ruleset"]);
    let mut families = Vec::new();
    while let Some(change) = monitor.wait(TABLE, NOW).unwrap() {
        let ForeignChange::Changed { family, .. } = change else {
            panic!("{change:?}");
        };
        families.push(family);
    }
    families.dedup();
    families.sort();
    families.dedup();
    assert_eq!(families, [Family::V4, Family::V6]);
}

#[test]
fn other_tables_are_ignored() {
    new_namespace();
    let (mut nftables, mut monitor) = opened();
    nftables.commit(own_table(1)).unwrap();
    run("nft", &["add", "table", "ip", "other"]);
    run("nft", &["add", "chain", "ip", "other", "dispatch"]);
    run("nft", &["add", "table", "inet", TABLE]);
    assert_eq!(monitor.wait(TABLE, NOW).unwrap(), None);
}

#[test]
fn lost_notifications_are_reported() {
    new_namespace();
    let (_own, mut monitor) = opened();
    let mut foreign = Nftables::open().unwrap();
    // The queue holds some megabytes, which these notifications exceed by far.
    for _ in 0..4 {
        foreign.commit(own_table(100_000)).unwrap();
        let mut batch = Batch::new();
        batch.delete_table(Family::V4, TABLE);
        foreign.commit(batch).unwrap();
    }
    let mut overflowed = false;
    while let Some(change) = monitor.wait(TABLE, NOW).unwrap() {
        overflowed |= change == ForeignChange::Overflow;
    }
    assert!(overflowed);
    foreign.commit(own_table(1)).unwrap();
    // By this process, whose name is that of the program or of the test.
    assert_eq!(next_by(&mut monitor, LONG, ""), changed(Family::V4, "added table test"));
}
