//! An API server that misbehaves.

use std::time::Duration;

use super::stage::Stage;
use super::world::{Cut, Trouble};

/// How much more memory than before the trouble.
const MOST_MORE_MEMORY: usize = 48 << 20;

/// The trouble meets every request and every watch; rules follow during it if they can, and after it in any case.
fn check(trouble: Trouble, follows_during_it: bool) {
    let stage = Stage::start();
    let before = stage.node.resident_bytes();
    stage.server.change(|world| {
        world.trouble = trouble;
        world.cut(Cut::Abrupt);
    });
    if follows_during_it {
        (1..=5).for_each(|number| stage.add_and_follow(number));
    }
    crate::poll::until("the trouble is met", || stage.server.world().troubled >= 4);
    stage.server.change(|world| world.trouble = Trouble::None);
    stage.add_and_follow(9);
    let more = stage.node.resident_bytes().saturating_sub(before);
    assert!(more < MOST_MORE_MEMORY, "{trouble:?}: {more} bytes more than before");
    println!("{trouble:?}: {} KB more than before", more >> 10);
}

#[test]
fn a_slow_server_is_followed() {
    check(Trouble::Slow(Duration::from_millis(200)), true);
}

#[test]
fn a_server_that_sends_garbage_is_followed_when_it_recovers() {
    check(Trouble::Garbage, false);
}

#[test]
fn a_server_that_is_overloaded_is_followed_when_it_recovers() {
    check(Trouble::TooMany, false);
}

#[test]
fn a_server_that_closes_after_each_event_is_followed() {
    check(Trouble::OneEvent, true);
}

#[test]
fn a_server_whose_watches_expire_is_followed() {
    check(Trouble::Expires, true);
}
