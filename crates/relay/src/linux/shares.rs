//! The division of descriptors between connections and pipes.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserved for the rest of the process, for abandoned dials, and for further listeners.
const RESERVED_DESCRIPTORS: usize = 512;

/// With fewer, connections would wait for each other.
const MIN_PIPES: usize = 32;

/// The limits that follow from the number of descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shares {
    pub(crate) connections: usize,
    pub(crate) pipes: usize,
}

/// The largest number of listeners: half of all descriptors, so that the rest is left for connections and for the
/// rest of the process.
pub(crate) fn max_listeners(descriptors: usize) -> usize {
    descriptors / 2
}

impl Shares {
    /// A connection has two descriptors, and a pipe has two as long as it holds bytes. Every second connection may
    /// hold a pipe, unless a lower number of connections is configured.
    pub(crate) fn of(descriptors: usize, wanted: usize) -> Self {
        let spare = descriptors - RESERVED_DESCRIPTORS.min(descriptors / 4);
        let most = if wanted == usize::MAX { spare / 3 } else { spare.saturating_sub(2 * MIN_PIPES) / 2 };
        let connections = wanted.min(most).max(1);
        let pipes = (spare.saturating_sub(2 * connections) / 2).max(MIN_PIPES);
        Shares { connections, pipes }
    }
}

/// Raises the soft limit of descriptors to the hard limit, and returns it. If that fails, the limit is unchanged.
pub(crate) fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // Raising the soft limit to the hard limit is always allowed.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(descriptors).unwrap_or(usize::MAX).min(i32::MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_divided_between_connections_and_pipes() {
        let shares = Shares::of(20_000, usize::MAX);
        assert_eq!(shares, Shares { connections: 6_496, pipes: 3_248 });
        assert!(2 * shares.connections + 2 * shares.pipes + RESERVED_DESCRIPTORS <= 20_000);
    }

    #[test]
    fn listeners_leave_room_for_connections() {
        let descriptors = 20_000;
        let left = descriptors - max_listeners(descriptors);
        assert_eq!(Shares::of(left, usize::MAX).connections, 3_162);
    }

    #[test]
    fn a_configured_limit_is_lowered_to_what_descriptors_allow() {
        assert_eq!(Shares::of(20_000, 100).connections, 100);
        assert_eq!(Shares::of(20_000, 9_700).connections, 9_700);
        assert_eq!(Shares::of(20_000, 50_000).connections, 9_712);
        assert_eq!(Shares::of(64, usize::MAX), Shares { connections: 16, pipes: MIN_PIPES });
    }
}
