//! The daemon with an API server that is slow, wrong, or faster than it, and on a node that lacks room: rules follow, and
//! memory is bounded.

mod conntrack;
mod disk;
#[path = "../../../../source/tests/source/cluster/fake.rs"]
#[expect(dead_code, reason = "the tests of the source use more")]
mod fake;
mod floods;
#[path = "../../../../source/tests/source/cluster/protobuf.rs"]
mod protobuf;
mod stage;
mod troubles;
#[path = "../../../../source/tests/source/cluster/world.rs"]
#[expect(dead_code, reason = "the tests of the source use more")]
mod world;

/// Of the scripted API server.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
