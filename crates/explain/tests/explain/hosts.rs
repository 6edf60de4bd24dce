//! The hosts that questions name, before they are looked up anywhere.

use portolan_explain::{NamedHost, Names, PathQuestion};

use crate::world::cluster;

#[test]
fn a_destination_without_a_namespace_gets_one() {
    let within =
        |text: &str| PathQuestion { destination: text.into(), ..PathQuestion::default() }.destination_in("shop");
    assert_eq!(within("svc/web:80/tcp"), "svc/shop/web:80/tcp");
    assert_eq!(within("lb/web"), "lb/shop/web");
    for whole in ["svc/other/web:80", "web", "node/n1:80", "10.96.0.1:80", "[fd00::1]:80"] {
        assert_eq!(within(whole), whole);
    }
}

#[test]
fn a_source_is_a_pod_a_node_an_address_or_something_else() {
    let host = |text: &str| {
        let question = PathQuestion { source: text.into(), ..PathQuestion::default() };
        question.source_host()
    };
    let pod = |namespace: Option<&str>, name: &str| NamedHost::Pod {
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    assert_eq!(host("pod/web-1"), (pod(None, "web-1"), None));
    assert_eq!(host("po/default/web-1"), (pod(Some("default"), "web-1"), None));
    assert_eq!(host("pod/default/web-1:40000"), (pod(Some("default"), "web-1"), Some(40_000)));
    assert_eq!(host("node/n1"), (NamedHost::Node("n1".into()), None));
    assert_eq!(host("n1"), (NamedHost::Bare { namespace: None, name: "n1".into() }, None));
    assert_eq!(host("10.0.0.1").0, NamedHost::Address("10.0.0.1".parse().expect("an address")));
    assert_eq!(host("[fd00::1]:9").0, NamedHost::Address("fd00::1".parse().expect("an address")));
    assert_eq!(host("svc/web").0, NamedHost::Other);
    assert_eq!(host("a b:c").0, NamedHost::Other);
}

/// A pod that the facts do not name, with the addresses that the API server has.
#[test]
fn addresses_that_were_looked_up_stand_for_a_name_that_the_facts_lack() {
    let plan = cluster().plan();
    let names = Names { plan: &plan, domain: "cluster.local", node: &|_| Vec::new() };
    let question = PathQuestion {
        source: "pod/default/client".into(),
        destination: "svc/web".into(),
        on_node: true,
        ..PathQuestion::default()
    };
    assert!(question.paths(&names).is_err());
    let addresses = vec!["10.244.1.77".parse().expect("an address")];
    let paths = PathQuestion { addresses, ..question }.paths(&names).expect("the name is not looked up");
    let packet = &paths.packets[0];
    assert_eq!(packet.source.as_deref(), Some("pod/default/client"));
    assert_eq!(packet.packet.source.to_string(), "10.244.1.77");
    assert!(packet.packet.is_from_socket);
}
