//! The page about kernels lists what the modes use.

use portolan_dataplane::modes;
use portolan_dataplane::requirements::{Feature, oldest_release};

const PAGE: &str = include_str!("../../../../docs/kernels.md");

fn row(mode: &str, feature: &Feature) -> String {
    let ((major, minor), without) = (feature.since, feature.without.unwrap_or("the mode does not work"));
    format!("| {mode} | {major}.{minor} | {} | {without} |", feature.what)
}

#[test]
fn the_page_about_kernels_lists_every_feature_of_every_mode() {
    let rows = || modes::ALL.iter().flat_map(|mode| mode.features().iter().map(|feature| row(mode.name(), feature)));
    let missing: Vec<String> = rows().filter(|row| !PAGE.contains(row)).collect();
    assert!(missing.is_empty(), "docs/kernels.md lacks:\n{}", missing.join("\n"));
    let listed = modes::ALL
        .iter()
        .flat_map(|mode| PAGE.lines().filter(|line| line.starts_with(&format!("| {} | ", mode.name()))));
    assert_eq!(
        listed.filter(|line| !rows().any(|row| row == **line)).collect::<Vec<_>>(),
        [""; 0],
        "no mode has these"
    );
}

#[test]
fn features_are_listed_by_release_and_the_oldest_release_is_on_the_page() {
    for mode in modes::ALL.iter().filter(|mode| mode.system() == "linux") {
        assert!(mode.features().is_sorted_by_key(|feature| feature.since), "{}", mode.name());
        let (major, minor) = oldest_release(mode.features());
        let sentence = format!("`{}` needs Linux {major}.{minor}", mode.name());
        assert!(PAGE.contains(&sentence), "{sentence}");
    }
}
