//! The same Service in every mode, with the lines of each part.

use portolan_dataplane::modes;
use serde_json::Value;

use crate::world::{WEB, World};

fn listing(world: &World, full: bool) -> Value {
    serde_json::to_value(world.known().modes("default/web", full).unwrap()).unwrap()
}

fn lines_with<'a>(mode: &'a Value, tag: &str) -> Vec<&'a str> {
    let lines = mode["lines"].as_array().unwrap().iter();
    let tagged = lines.filter(|line| line["tags"].as_array().unwrap().iter().any(|it| it == tag));
    tagged.map(|line| line["text"].as_str().unwrap()).collect()
}

#[test]
fn every_mode_of_the_registry_is_listed() {
    let world = World::new(WEB);
    let answer = listing(&world, false);
    let names: Vec<&str> = answer["modes"].as_array().unwrap().iter().map(|it| it["mode"].as_str().unwrap()).collect();
    assert_eq!(names, modes::ALL.iter().map(|mode| mode.name()).collect::<Vec<_>>());
    let active: Vec<&Value> = answer["modes"].as_array().unwrap().iter().filter(|it| it["is_active"] == true).collect();
    assert_eq!((active.len(), &active[0]["mode"]), (1, &world.mode().name().into()));
}

#[test]
fn the_same_part_has_lines_in_every_mode() {
    let world = World::new(WEB);
    let picture = serde_json::to_value(world.known().service("default/web").unwrap()).unwrap();
    let answer = listing(&world, false);
    for mode in answer["modes"].as_array().unwrap() {
        let name = mode["mode"].as_str().unwrap();
        let endpoints = picture["endpoints"].as_array().unwrap().iter().filter(|it| it["state"] == "in use");
        for endpoint in endpoints {
            let address = endpoint["address"].as_str().unwrap().split(':').next().unwrap();
            let lines = lines_with(mode, endpoint["id"].as_str().unwrap());
            assert!(lines.iter().any(|line| line.contains(address)), "{name} {address}: {lines:?}");
        }
        for frontend in picture["frontends"].as_array().unwrap() {
            let (id, address) = (frontend["id"].as_str().unwrap(), frontend["address"].as_str().unwrap());
            let (host, port) = address.rsplit_once(':').unwrap();
            let word = if host == "*" { port } else { host };
            let lines = lines_with(mode, id);
            assert!(lines.iter().any(|line| line.contains(word)), "{name} {address}: {lines:?}");
        }
        assert!(!lines_with(mode, "pool:0").is_empty(), "{name} has lines for the pool");
    }
}

/// A line about another endpoint is not that endpoint's.
#[test]
fn lines_belong_to_the_endpoints_that_they_name() {
    let world = World::new(WEB);
    let answer = listing(&world, false);
    for mode in answer["modes"].as_array().unwrap() {
        let of_first = lines_with(mode, "endpoint:0");
        let wrong = of_first.iter().filter(|line| line.contains("10.244.2.2") && !line.contains("10.244.1.2"));
        // A line may depend on all endpoints of a pool, as a name of the pool does.
        let wrong: Vec<_> =
            wrong.filter(|line| line.contains("elements = ") || line.contains("--to-destination")).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", mode["mode"]);
    }
}

#[test]
fn routes_have_lines_where_masquerade_is_decided_by_rules() {
    let world = World::new(WEB);
    let answer = listing(&world, false);
    let tagged = |mode: &&Value| (0..9).any(|route| !lines_with(mode, &format!("route:{route}")).is_empty());
    assert!(answer["modes"].as_array().unwrap().iter().filter(tagged).count() >= 3);
}

#[test]
fn what_every_node_has_is_omitted() {
    let world = World::new(WEB);
    let (short, full) = (listing(&world, false), listing(&world, true));
    for (short, full) in short["modes"].as_array().unwrap().iter().zip(full["modes"].as_array().unwrap()) {
        let (short, full) = (short["lines"].as_array().unwrap(), full["lines"].as_array().unwrap());
        let own = |lines: &[Value]| lines.iter().filter(|line| line["kind"] == "service").count();
        assert!(own(short) == own(full) && short.len() <= full.len(), "{} {}", short.len(), full.len());
        let omitted: u64 = short.iter().filter_map(|line| line["count"].as_u64()).sum();
        let blank = full.iter().filter(|line| line["text"].as_str().unwrap().trim().is_empty()).count() as u64;
        let shown = short.iter().filter(|line| line["kind"] != "omitted").count() as u64;
        assert_eq!(omitted + shown + blank, full.len() as u64);
    }
}
