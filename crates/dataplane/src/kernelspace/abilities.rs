//! What an HNS can do, by its version.

use portolan_hns::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Endpoints can answer clients directly, so that they see the client's own address.
    pub direct_return: bool,
    /// Connections of one client can be kept on one endpoint.
    pub affinity: bool,
    /// Both address families at once.
    pub dual_stack: bool,
}

impl Abilities {
    /// Those of a recent HNS, which are assumed where none is asked.
    pub const ALL: Self = Self { direct_return: true, affinity: true, dual_stack: true };

    pub fn of(version: Version) -> Self {
        Self {
            direct_return: version.returns_directly(),
            affinity: version >= Version::AFFINITY,
            dual_stack: version >= Version::DUAL_STACK,
        }
    }

    /// For the log: what is missing, and what happens instead.
    pub(super) fn warnings(self, version: Version) -> Vec<String> {
        let Version { major, minor } = version;
        let missing = [
            (
                self.direct_return,
                "direct server return",
                "endpoints see an address of this node also with externalTrafficPolicy: Local, and preserve-destination has no effect",
            ),
            (self.affinity, "session affinity (12.0 has it)", "connections of one client reach several endpoints"),
            (
                self.dual_stack,
                "dual stack (11.10 has it)",
                "Services of the node's first address family alone are served",
            ),
        ];
        let missing = missing.into_iter().filter(|(is_there, ..)| !is_there);
        missing.map(|(_, what, instead)| format!("HNS {major}.{minor} does not have {what}: {instead}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranges of hnslib, which kube-proxy asks.
    #[test]
    fn abilities_follow_from_the_version() {
        for ((major, minor), direct_return, affinity, dual_stack) in [
            ((9, 2), false, false, false),
            ((9, 3), true, false, false),
            ((10, 0), false, false, false),
            ((10, 2), true, false, false),
            ((11, 10), true, false, true),
            ((12, 0), true, true, true),
            ((15, 5), true, true, true),
        ] {
            let version = Version::new(major, minor);
            let abilities = Abilities::of(version);
            assert_eq!(abilities, Abilities { direct_return, affinity, dual_stack }, "{major}.{minor}");
            let missing = [direct_return, affinity, dual_stack].iter().filter(|is_there| !**is_there).count();
            assert_eq!(abilities.warnings(version).len(), missing);
        }
    }
}
