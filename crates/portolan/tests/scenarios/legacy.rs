//! The scenarios that send packets through the legacy tables of iptables.

use std::collections::BTreeSet;

use portolan_testkit::Scenario;

use crate::mode;
use crate::support::scenarios;

const CHOSEN: &str = include_str!("legacy.txt");

fn chosen_names() -> BTreeSet<&'static str> {
    let lines = CHOSEN.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_whitespace().next()).collect()
}

/// The scenarios of the list, or those that `SCENARIO` names.
pub(crate) fn chosen() -> Vec<Scenario> {
    let names = chosen_names();
    let is_named = std::env::var_os("SCENARIO").is_some();
    scenarios().into_iter().filter(|scenario| is_named || names.contains(scenario.name.as_str())).collect()
}

/// The kinds of matches and targets in the golden objects of a mode: options, and the words after `-m`, `-j` and `-p`.
/// Names of chains contain a hyphen.
fn kinds<'a>(scenario: &'a Scenario, mode: &str) -> BTreeSet<&'a str> {
    let golden = scenario.golden.get(mode).map_or("", String::as_str);
    let words: Vec<&str> = golden.split_whitespace().collect();
    let options = words.iter().filter(|word| word.starts_with('-')).copied();
    let named = words.windows(2).filter(|pair| ["-m", "-j", "-p"].contains(&pair[0]) && !pair[1].contains('-'));
    options.chain(named.map(|pair| pair[1])).collect()
}

#[test]
fn the_list_has_every_kind_of_match_and_target() {
    let all = Scenario::all(crate::support::folder()).expect("every scenario can be read");
    let names = chosen_names();
    let chosen: Vec<&Scenario> = all.iter().filter(|scenario| names.contains(scenario.name.as_str())).collect();
    assert_eq!(chosen.len(), names.len(), "every name of the list is a scenario");
    for tested in mode::all().filter(|tested| tested.mode.kernel_modules().is_empty() && tested.has_tables()) {
        let mode = tested.name();
        let covered: BTreeSet<&str> = chosen.iter().flat_map(|scenario| kinds(scenario, mode)).collect();
        let missing: Vec<&str> = all.iter().flat_map(|scenario| kinds(scenario, mode)).collect();
        let missing: BTreeSet<&str> = missing.into_iter().filter(|kind| !covered.contains(kind)).collect();
        assert!(missing.is_empty(), "{mode}: no scenario of the list has {missing:?}");
        assert!(covered.contains("DNAT") && covered.contains("--reject-with"), "{mode}: {covered:?}");
    }
}
