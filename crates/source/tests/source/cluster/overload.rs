//! A server that is slow, overloaded or out of its mind, for dozens of requests.

use std::time::Duration;

use portolan_source::cluster::Tuning;

use super::fake::Fake;
use super::follower::{Follower, service, tuning};
use super::world::{self, Cut, Trouble, World};

#[tokio::test]
async fn every_trouble_is_survived_and_changes_follow() {
    let slow = Trouble::Slow(Duration::from_millis(5));
    let troubles = [(slow, 20), (Trouble::Garbage, 50), (Trouble::OneEvent, 50), (Trouble::Expires, 50)];
    for (trouble, count) in troubles {
        let fake = Fake::start(World::default()).await;
        let follower = Follower::of(&fake);
        follower.ready().await;
        fake.change(|world| {
            world.trouble = trouble;
            world.cut(Cut::Torn);
        });
        for number in 0..count {
            let name = format!("s{number}");
            fake.change(|world| world.put(world::service(&name, "10.96.0.1")));
            if trouble != Trouble::Garbage {
                follower.until("the change", |it| service(it, &name).is_some()).await;
            }
        }
        fake.until("the trouble is met", |world| world.troubled >= 4).await;
        fake.change(|world| world.trouble = Trouble::None);
        let last = follower.until("all changes", |it| it.services.len() == count).await;
        assert_eq!(last.services.len(), count, "{trouble:?}");
    }
}

/// Without the header, the backoff of these tests would repeat the request within milliseconds.
#[tokio::test]
async fn an_overloaded_server_is_left_alone_for_as_long_as_it_requests() {
    let fake = Fake::start(World { trouble: Trouble::TooMany, ..World::default() }).await;
    let follower = Follower::of(&fake);
    fake.until("all four watches have failed twice", |world| world.troubled >= 8).await;
    let requests = fake.world().troubled;
    assert!(requests <= 16, "{requests} requests within about a second");
    fake.change(|world| world.trouble = Trouble::None);
    follower.ready().await;
}

/// A body without end must not fill the memory.
#[tokio::test]
async fn a_list_that_is_too_long_is_not_read_to_its_end() {
    let fake = Fake::start(World { trouble: Trouble::Garbage, ..World::default() }).await;
    let follower = Follower::tuned(&fake, Tuning { streaming: false, longest_list: 1 << 16, ..tuning() });
    follower.fails_with("the list is longer than 65536 bytes").await;
    fake.change(|world| world.trouble = Trouble::None);
    follower.ready().await;
}
