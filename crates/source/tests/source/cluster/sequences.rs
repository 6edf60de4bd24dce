//! Whatever happens to objects and connections, in the end the snapshot is that of a fresh start.

use portolan_model::Snapshot;

use super::fake::Fake;
use super::follower::Follower;
use super::world::{self, Cut, Initial, World};

/// A small generator of numbers, so that a failure can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

fn happen(dice: &mut Dice, world: &mut World) {
    let (number, other) = (dice.roll(6), dice.roll(6));
    match dice.roll(14) {
        0..3 => world.put(world::service(&format!("s{number}"), &format!("10.96.0.{}", dice.roll(9) + 1))),
        3..6 => {
            let address = format!("10.1.0.{}", dice.roll(9) + 1);
            world.put(world::slice(&format!("e{number}"), &format!("s{other}"), &[&address]));
        }
        6 => world.delete(&format!("Service/s{number}")),
        7 => world.delete(&format!("EndpointSlice/e{number}")),
        8 => world.put(world::node(&format!("z{number}"))),
        9 => world.delete("Node/here"),
        10 => world.put(world::ranges(&format!("r{}", dice.roll(2)), &[&format!("10.{}.0.0/16", dice.roll(9))])),
        11 => world.cut([Cut::Clean, Cut::Abrupt, Cut::Torn][dice.roll(3) as usize]),
        12 => {
            world.gone_inside = dice.roll(2) == 0;
            world.cut(Cut::Abrupt);
            world.compact();
        }
        _ => world.initial = [Initial::Sent, Initial::Refused(400)][dice.roll(2) as usize],
    }
}

/// The last version of a deleted Node stays in force for a follower that has seen it.
fn is_same(known: &Snapshot, fresh: &Snapshot) -> bool {
    (known.node == fresh.node || fresh.node.addresses.is_empty())
        && known.services == fresh.services
        && known.slices == fresh.slices
        && known.service_ranges == fresh.service_ranges
}

#[tokio::test]
async fn any_sequence_ends_where_a_fresh_list_would() {
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut world = World { json_only: seed % 3 == 0, page: 2, ..World::default() };
        (0..10).for_each(|_| happen(&mut dice, &mut world));
        let fake = Fake::start(world).await;
        let follower = Follower::of(&fake);
        for _ in 0..20 {
            fake.change(|world| (0..=dice.roll(3)).for_each(|_| happen(&mut dice, world)));
            if dice.roll(2) == 0 {
                tokio::task::yield_now().await;
            } else {
                follower.ready().await;
            }
        }
        let fresh = Follower::of(&fake).ready().await;
        follower.until(&format!("seed {seed} to end as {fresh:?}"), |snapshot| is_same(snapshot, &fresh)).await;
    }
}
