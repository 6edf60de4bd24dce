//! What a mode needs of the kernel, by release, and what a machine lacks.

use portolan_kernel::{IS_LINUX, sysctl};

/// Something of the kernel that a mode uses and that not every release has.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The first release that has it.
    pub since: (u32, u32),
    pub what: &'static str,
    /// What happens without it; `None` if the mode does not work without it.
    pub without: Option<&'static str>,
}

/// Every mode talks netlink.
pub(crate) const NETLINK: Feature =
    Feature { since: (4, 12), what: "extended acknowledgements of netlink", without: None };

/// For the modes that run the programs of iptables.
pub(crate) const NAT_OF_BOTH: Feature = Feature {
    since: (4, 18),
    what: "NAT chains of nf_tables beside those of iptables",
    without: Some("only the legacy variant of iptables works"),
};

/// The oldest release that has everything that a mode with these features cannot do without.
pub fn oldest_release(features: &[Feature]) -> (u32, u32) {
    let needed = features.iter().filter(|feature| feature.without.is_none());
    needed.map(|feature| feature.since).max().unwrap_or_default()
}

/// One line about the kernel of this machine and the mode, for the log.
#[derive(Debug, PartialEq, Eq)]
pub struct Assessment {
    pub text: String,
    /// The mode may not work.
    pub is_warning: bool,
}

/// Compares the kernel of this machine with the features that a mode uses; `missing` is what a trial has found.
pub fn assess(mode: &str, features: &[Feature], missing: Option<String>) -> Assessment {
    if !IS_LINUX {
        let is_warning = missing.is_some();
        let text =
            missing.map_or_else(|| "has what it needs".to_owned(), |missing| format!("lacks something: {missing}"));
        return Assessment { text: format!("mode {mode} {text}"), is_warning };
    }
    let release = sysctl::read("kernel/osrelease").ok().flatten().unwrap_or_default();
    assess_release(mode, features, &release, missing)
}

/// Distributions add features to older releases, so that a release alone does not prove that something is missing.
fn assess_release(mode: &str, features: &[Feature], release: &str, missing: Option<String>) -> Assessment {
    let version = version(release);
    let newer: Vec<&Feature> = features.iter().filter(|feature| feature.since > version).collect();
    let is_warning = missing.is_some() || newer.iter().any(|feature| feature.without.is_none());
    let mut text = match newer.is_empty() {
        true => format!("Linux {release} has all features that mode {mode} uses"),
        false => format!("Linux {release} lacks features of mode {mode}, unless backported: {}", list(&newer)),
    };
    if let Some(missing) = missing {
        text = format!("{text}; {missing}");
    }
    Assessment { text, is_warning }
}

fn list(features: &[&Feature]) -> String {
    let entry = |feature: &&Feature| {
        let ((major, minor), without) = (feature.since, feature.without.unwrap_or("required"));
        format!("{} (Linux {major}.{minor}; {without})", feature.what)
    };
    features.iter().map(entry).collect::<Vec<_>>().join(", ")
}

/// The first two numbers of a release, such as `6.1.0-44-amd64`.
pub(crate) fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEATURES: &[Feature] = &[
        Feature { since: (5, 9), what: "a rejection before routing", without: None },
        Feature { since: (6, 3), what: "a lenient deletion", without: Some("clients are deleted one by one") },
    ];

    fn assessed(release: &str, missing: Option<&str>) -> (String, bool) {
        let Assessment { text, is_warning } = assess_release("fast", FEATURES, release, missing.map(str::to_owned));
        (text, is_warning)
    }

    #[test]
    fn a_release_is_compared_with_each_feature() {
        let all = "Linux 6.3.0-rc1 has all features that mode fast uses";
        assert_eq!(assessed("6.3.0-rc1", None), (all.into(), false));
        let older = "Linux 6.1.0-44-amd64 lacks features of mode fast, unless backported: a lenient deletion (Linux 6.3; \
                     clients are deleted one by one)";
        assert_eq!(assessed("6.1.0-44-amd64", None), (older.into(), false));
        let (text, is_warning) = assessed("5.4.17", None);
        assert!(text.contains("a rejection before routing (Linux 5.9; required), a lenient deletion"), "{text}");
        assert!(is_warning);
    }

    #[test]
    fn what_the_kernel_refuses_is_a_warning_on_any_release() {
        let (text, is_warning) = assessed("6.18.1", Some("this kernel has no IPVS (module ip_vs)"));
        assert!(text.ends_with("uses; this kernel has no IPVS (module ip_vs)"), "{text}");
        assert!(is_warning);
    }

    #[test]
    fn any_release_has_a_version() {
        assert_eq!(version("6.18.44-fc-v445"), (6, 18));
        assert_eq!(version("7.0"), (7, 0));
        assert_eq!(version("6"), (6, 0));
        assert_eq!(version(""), (0, 0));
    }
}
