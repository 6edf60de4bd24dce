//! Lists and watches, and all that happens to them.

use std::sync::Arc;
use std::time::Duration;

use portolan_model::Snapshot;
use portolan_source::cluster::{ClusterOptions, ContentType, NodeState, Tuning};

use super::fake::Fake;
use super::follower::{Follower, addresses, options, service, slices, tuning};
use super::world::{self, Cut, Initial, World};

fn populated() -> World {
    let mut world = World::default();
    world.put(world::service("web", "10.96.0.1"));
    world.put(world::service("api", "10.96.0.2"));
    world.put(world::slice("web-a", "web", &["10.1.0.1", "10.1.0.2"]));
    world.put(world::slice("api-a", "api", &["10.1.0.3"]));
    world.put(world::node("z1"));
    world.put(world::ranges("kubernetes", &["10.96.0.0/12", "fd00:96::/112"]));
    world
}

#[tokio::test]
async fn everything_comes_with_initial_events_and_changes_follow() {
    let fake = Fake::start(populated()).await;
    let follower = Follower::of(&fake);
    let snapshot = follower.ready().await;
    assert_eq!(snapshot.services.len(), 2);
    assert_eq!(addresses(&snapshot, "web"), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(snapshot.node.zone.as_deref(), Some("z1"));
    assert_eq!(
        snapshot.node.addresses.iter().map(|it| it.to_string()).collect::<Vec<_>>(),
        ["192.0.2.7", "198.51.100.7"]
    );
    assert_eq!(snapshot.node.pod_ranges.len(), 2);
    assert_eq!(snapshot.service_ranges.len(), 2);
    let present = NodeState::Present { deleting: false, to_be_deleted_taint: false };
    assert_eq!(follower.cluster.node_state(), present);

    let before = follower.cluster.take_changes();
    assert_eq!((before.services, before.endpoints), (2, 2));
    fake.change(|world| world.put(world::slice("web-a", "web", &["10.1.0.9"])));
    let snapshot = follower.until("the new endpoint", |it| addresses(it, "web") == ["10.1.0.9"]).await;
    assert_eq!(addresses(&snapshot, "api"), ["10.1.0.3"]);
    let changes = follower.cluster.take_changes();
    assert_eq!((changes.services, changes.endpoints, changes.triggers.len()), (0, 1, 1));
    assert!(changes.oldest.is_some());
    fake.change(|world| world.delete("Service/api"));
    follower.until("the end of a Service", |it| service(it, "api").is_none()).await;
    assert_eq!(fake.world().requested("watch=true"), 4, "one watch each, from the beginning");
}

#[tokio::test]
async fn the_questions_are_those_of_kube_proxy() {
    let fake = Fake::start(populated()).await;
    Follower::of(&fake).ready().await;
    let world = fake.world();
    assert_eq!(world.requested("/api/v1/services?fieldSelector=spec.clusterIP%21%3DNone&labelSelector=%21service.kubernetes.io%2Fservice-proxy-name&"), 1);
    assert_eq!(
        world.requested("/apis/discovery.k8s.io/v1/endpointslices?labelSelector=%21service.kubernetes.io%2Fheadless&"),
        1
    );
    assert_eq!(world.requested("/api/v1/nodes?fieldSelector=metadata.name%3Dhere&"), 1);
    assert_eq!(world.requested("allowWatchBookmarks=true"), 4);
    assert_eq!(world.requested("sendInitialEvents=true&resourceVersionMatch=NotOlderThan"), 4);
    assert!(
        world
            .requests
            .iter()
            .all(|it| it.headers["accept"].starts_with("application/vnd.kubernetes.protobuf;stream=watch,"))
    );
}

#[tokio::test]
async fn a_server_without_protobuf_sends_json() {
    for initial in [Initial::Sent, Initial::Refused(422)] {
        let fake = Fake::start(World { json_only: true, initial, ..populated() }).await;
        let follower = Follower::of(&fake);
        assert_eq!(addresses(&follower.ready().await, "web"), ["10.1.0.1", "10.1.0.2"]);
        fake.change(|world| world.put(world::slice("web-a", "web", &["10.1.0.9"])));
        follower.until("the new endpoint", |it| addresses(it, "web") == ["10.1.0.9"]).await;
    }
}

#[tokio::test]
async fn json_is_used_if_configured() {
    let fake = Fake::start(populated()).await;
    let master = Some(format!("http://{}", fake.address));
    let options = ClusterOptions { master, content_type: ContentType::Json, ..options() };
    let snapshot = Follower::start(options, tuning()).ready().await;
    assert_eq!(snapshot.services.len(), 2);
    assert!(fake.world().requests.iter().all(|it| !it.headers["accept"].contains("protobuf")));
}

#[tokio::test]
async fn a_server_without_initial_events_is_listed_in_pages() {
    for code in [400, 403, 422] {
        let fake = Fake::start(World { initial: Initial::Refused(code), page: 1, ..populated() }).await;
        let follower = Follower::of(&fake);
        assert_eq!(follower.ready().await.services.len(), 2);
        assert_eq!(fake.world().requested("continue=1"), 2, "the second page of Services and of slices");
        assert_eq!(fake.world().connections, 4, "one for each resource, whatever is requested on it");
        fake.change(|world| world.put(world::service("new", "10.96.0.3")));
        follower.until("a new Service", |it| service(it, "new").is_some()).await;
    }
}

#[tokio::test]
async fn initial_events_that_never_end_are_given_up() {
    let fake = Fake::start(World { initial: Initial::Endless, ..populated() }).await;
    let tuning = Tuning { initial_silence: Duration::from_millis(50), ..tuning() };
    let follower = Follower::tuned(&fake, tuning);
    assert_eq!(follower.ready().await.services.len(), 2);
    fake.change(|world| world.put(world::service("new", "10.96.0.3")));
    follower.until("a new Service", |it| service(it, "new").is_some()).await;
}

#[tokio::test]
async fn a_server_without_service_ranges_is_no_obstacle() {
    let fake = Fake::start(World { without_ranges: true, ..populated() }).await;
    let snapshot = Follower::of(&fake).ready().await;
    assert!(snapshot.service_ranges.is_empty());
}

#[tokio::test]
async fn an_absent_node_is_an_answer_and_so_is_one_that_comes_and_goes() {
    let mut world = populated();
    world.delete("Node/here");
    let fake = Fake::start(world).await;
    let follower = Follower::of(&fake);
    assert_eq!(&*follower.ready().await.node.name, "here");
    assert_eq!(follower.cluster.node_state(), NodeState::Absent);
    let mut doomed = world::node("z2");
    doomed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    doomed["spec"]["taints"] = serde_json::json!([{"key": "ToBeDeletedByClusterAutoscaler"}]);
    fake.change(|world| world.put(doomed));
    follower.until("the node", |it| it.node.zone.as_deref() == Some("z2")).await;
    let state = NodeState::Present { deleting: true, to_be_deleted_taint: true };
    assert_eq!(follower.cluster.node_state(), state);
    fake.change(|world| world.delete("Node/here"));
    let is_gone = |_: &Snapshot| follower.cluster.node_state() == NodeState::Absent;
    let snapshot = follower.until("the node's end", is_gone).await;
    assert_eq!(snapshot.node.zone.as_deref(), Some("z2"), "the last version stays in force");
}

#[tokio::test]
async fn an_interrupted_watch_goes_on_where_it_was() {
    for cut in [Cut::Clean, Cut::Abrupt, Cut::Torn] {
        let fake = Fake::start(populated()).await;
        let follower = Follower::of(&fake);
        let before = follower.ready().await;
        fake.until("four watches", |world| world.requested("sendInitialEvents") == 4).await;
        fake.change(|world| {
            world.cut(cut);
            world.delete("EndpointSlice/api-a");
            world.put(world::service("new", "10.96.0.3"));
        });
        let after = follower
            .until("what happened meanwhile", |it| service(it, "new").is_some() && slices(it, "api").is_empty())
            .await;
        assert!(Arc::ptr_eq(&service(&before, "web").unwrap(), &service(&after, "web").unwrap()), "{cut:?}");
        assert_eq!(fake.world().requested("sendInitialEvents"), 4, "nothing is listed again after {cut:?}");
    }
}

#[tokio::test]
async fn a_forgotten_version_leads_to_exactly_the_difference() {
    for gone_inside in [false, true] {
        for initial in [Initial::Sent, Initial::Refused(400)] {
            let fake = Fake::start(World { gone_inside, initial, ..populated() }).await;
            let follower = Follower::of(&fake);
            let before = follower.ready().await;
            follower.cluster.take_changes();
            fake.until("four watches", |world| world.requested("watch=true") >= 4).await;
            fake.change(|world| {
                world.cut(Cut::Abrupt);
                world.delete("Service/api");
                world.delete("EndpointSlice/api-a");
                world.put(world::slice("web-b", "web", &["10.1.0.7"]));
                world.compact();
            });
            let after = follower
                .until("the difference", |it| service(it, "api").is_none() && slices(it, "web").len() == 2)
                .await;
            let after = if slices(&after, "api").is_empty() { after } else { follower.ready().await };
            assert!(slices(&after, "api").is_empty());
            assert!(Arc::ptr_eq(&service(&before, "web").unwrap(), &service(&after, "web").unwrap()));
            assert!(Arc::ptr_eq(&slices(&before, "web")[0], &slices(&after, "web")[0]));
            let changes = follower.cluster.take_changes();
            assert_eq!((changes.services, changes.endpoints), (1, 2), "{initial:?}");
        }
    }
}

#[tokio::test]
async fn while_the_server_is_away_the_last_snapshot_stays() {
    let fake = Fake::start(populated()).await;
    let follower = Follower::of(&fake);
    follower.ready().await;
    fake.change(|world| {
        world.down = true;
        world.cut(Cut::Abrupt);
    });
    follower.fails_with("").await;
    assert_eq!(follower.cluster.snapshot().unwrap().services.len(), 2);
    fake.change(|world| {
        world.down = false;
        world.delete("Service/api");
    });
    follower.until("the return", |it| it.services.len() == 1).await;
    let watches = follower.cluster.connection();
    assert_eq!(
        watches.iter().map(|it| it.what).collect::<Vec<_>>(),
        ["Services", "EndpointSlices", "Node", "ServiceCIDRs"]
    );
    assert!(watches[0].connected && watches[0].complete && watches[0].last_error.is_some());
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let fake = Fake::start(World { mute: true, ..populated() }).await;
    let (watch, grace) = (Duration::from_millis(20), Duration::from_millis(20));
    let follower = Follower::tuned(&fake, Tuning { watch, grace, ..tuning() });
    follower.ready().await;
    fake.change(|world| world.put(world::service("new", "10.96.0.3")));
    follower.fails_with("no data for").await;
    fake.change(|world| world.mute = false);
    follower.until("the new Service", |it| service(it, "new").is_some()).await;
}

#[tokio::test]
async fn silence_after_bookmarks_is_noticed_sooner() {
    let fake = Fake::start(populated()).await;
    let follower = Follower::tuned(&fake, Tuning { bookmark_silence: Duration::from_millis(50), ..tuning() });
    follower.ready().await;
    fake.change(|world| world.put(world::service("new", "10.96.0.3")));
    follower.until("the new Service", |it| service(it, "new").is_some()).await;
    follower.fails_with("no data for 50ms").await;
}

#[tokio::test]
async fn a_server_that_never_responds_times_out() {
    let fake = Fake::start(World { silent: true, ..populated() }).await;
    let follower = Follower::tuned(&fake, Tuning { answer: Duration::from_millis(50), ..tuning() });
    follower.fails_with("no answer within 50ms").await;
    assert!(follower.cluster.snapshot().is_none());
    fake.change(|world| world.silent = false);
    follower.ready().await;
}

#[tokio::test]
async fn what_comes_again_unchanged_is_no_news() {
    let fake = Fake::start(populated()).await;
    let follower = Follower::of(&fake);
    let before = follower.ready().await;
    let count = follower.notifications();
    fake.change(|world| {
        let mut same = world::service("web", "10.96.0.1");
        same["metadata"]["labels"]["a"] = "c".into();
        world.put(same);
        world.put(world::service("new", "10.96.0.3"));
    });
    let after = follower.until("the new Service", |it| service(it, "new").is_some()).await;
    assert!(Arc::ptr_eq(&service(&before, "web").unwrap(), &service(&after, "web").unwrap()));
    assert_eq!(follower.notifications(), count + 1);
}

/// Only this Node is watched; another one is looked up when there is a question about it.
#[tokio::test]
async fn the_addresses_of_another_node_are_looked_up() {
    let mut world = populated();
    let mut other = world::node("z2");
    other["metadata"]["name"] = "other".into();
    other["status"]["addresses"] = serde_json::json!([{"type": "InternalIP", "address": "192.0.2.8"}]);
    world.put(other);
    let fake = Fake::start(world).await;
    let follower = Follower::of(&fake);
    follower.ready().await;
    let cluster = follower.cluster.clone();
    let found = tokio::task::spawn_blocking(move || {
        ["other", "unknown", "no name/\u{7}"].map(|name| cluster.node_addresses(name))
    });
    let [other, unknown, hostile] = found.await.unwrap();
    assert_eq!(other, ["192.0.2.8".parse::<std::net::IpAddr>().unwrap()]);
    assert!(unknown.is_empty() && hostile.is_empty());
}
