//! Names that complete a question.

use crate::world::{WEB, World};

fn values(world: &World, text: &str, for_destination: bool) -> Vec<String> {
    let answer = world.known().candidates(text, for_destination, 20);
    answer.candidates.into_iter().map(|candidate| candidate.value).collect()
}

#[test]
fn sources_are_hosts_and_destinations_are_services_first() {
    let world = World::new(WEB);
    assert_eq!(values(&world, "web", false), ["pod/default/web-a"]);
    assert_eq!(values(&world, "node", false), ["node/node-a", "pod/default/web-a"]);
    assert_eq!(values(&world, "client", false), ["client-ip"]);
    assert_eq!(values(&world, "web", true), ["svc/default/web", "nodeport/default/web", "pod/default/web-a"]);
    assert_eq!(values(&world, "10.244.1.2", false), ["pod/default/web-a"]);
    assert_eq!(values(&world, "nothing", true), [""; 0]);
    assert_eq!(values(&world, "", true).len(), 4);
    assert_eq!(world.known().candidates("", true, 2).candidates.len(), 2);
}
