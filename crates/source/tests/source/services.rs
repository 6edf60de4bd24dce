//! Defaults and refusals of Services.

use std::time::Duration;

use portolan_model::{Algorithm, Protocol, Rebalance, RemovedConnections, ServiceKind, TrafficPolicy};

use crate::common::{good, load, named, printed, service, slices, web};

#[test]
fn defaults() {
    let service = service(&good(&web(&[])), "web");
    assert_eq!(service.kind, ServiceKind::ClusterIp);
    assert_eq!(service.cluster_ips.len(), 1);
    assert!(service.cluster_ips[0].is_ipv4());
    assert_eq!((service.ports[0].protocol, service.ports[0].node_port), (Protocol::Tcp, None));
    assert_eq!(&*service.ports[0].name, "");
    assert_eq!((service.internal_policy, service.external_policy), (TrafficPolicy::Cluster, TrafficPolicy::Cluster));
    assert_eq!((service.affinity_seconds, service.health_check_node_port), (None, None));
}

#[test]
fn a_namespace_defaults_to_default_and_is_kept() {
    let text = "kind: Service\nmetadata: {name: web, namespace: shop}\nspec: {ports: [{port: 80}]}";
    let snapshot = good(text).snapshot();
    assert_eq!(snapshot.services.keys().map(ToString::to_string).collect::<Vec<_>>(), ["shop/web"]);
}

#[test]
fn affinity() {
    let seconds = |spec: &[&str]| service(&good(&web(spec)), "web").affinity_seconds;
    assert_eq!(seconds(&["sessionAffinity: None"]), None);
    assert_eq!(seconds(&["sessionAffinity: ClientIP"]), Some(10_800));
    let config = "sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}";
    assert_eq!(seconds(&["sessionAffinity: ClientIP", config]), Some(60));
    assert_eq!(seconds(&[config]), None);
}

#[test]
fn a_malformed_scheduler_annotation_is_ignored() {
    let text = |value: &str| {
        let metadata = format!("metadata: {{name: web, annotations: {{portolan.io/scheduler: {value:?}}}}}");
        format!("kind: Service\n{metadata}\nspec: {{ports: [{{port: 80}}]}}")
    };
    assert_eq!(service(&good(&text("lc")), "web").scheduler.as_deref(), Some("lc"));
    assert_eq!(service(&good(&web(&[])), "web").scheduler, None);
    for nonsense in ["LC", "rr; reboot", "much-too-long-a-name"] {
        let (manifests, report) = load(&text(nonsense));
        assert_eq!(service(&manifests, "web").scheduler, None);
        let problems = printed(&report);
        assert!(problems.contains("metadata.annotations[portolan.io/scheduler]"), "{problems}");
    }
}

#[test]
fn a_malformed_weight_is_reported_and_the_default_counts() {
    let slice = |weight: &str| {
        format!(
            "kind: EndpointSlice\nmetadata: {{name: web-1, labels: {{kubernetes.io/service-name: web}}, \
             annotations: {{portolan.dev/weight: {weight:?}}}}}\naddressType: IPv4\nports: [{{port: 80}}]\n\
             endpoints: [{{addresses: [10.244.1.2]}}]\n---\n{}",
            web(&[])
        )
    };
    let weight = |text: &str| {
        let (manifests, report) = load(text);
        (slices(&manifests, "web")[0].endpoints[0].weight.number(), printed(&report))
    };
    assert_eq!(weight(&slice("250")), (250, String::new()));
    for nonsense in ["1001", "-1", "many", ""] {
        let (number, problems) = weight(&slice(nonsense));
        assert_eq!(number, 100);
        assert!(problems.contains("metadata.annotations[portolan.dev/weight]"), "{problems}");
    }
}

#[test]
fn a_malformed_zone_costs_no_endpoint() {
    let text = format!(
        "kind: EndpointSlice\nmetadata: {{name: web-1, labels: {{kubernetes.io/service-name: web}}}}\n\
         addressType: IPv4\nports: [{{port: 80}}]\n\
         endpoints: [{{addresses: [10.244.1.2], zone: zone-a}}, {{addresses: [10.244.1.3], zone: 'east 1;'}}]\n---\n{}",
        web(&[])
    );
    let endpoints = slices(&good(&text), "web")[0].endpoints.clone();
    assert_eq!(endpoints.iter().map(|it| it.zone().map(|zone| &**zone)).collect::<Vec<_>>(), [Some("zone-a"), None]);
}

#[test]
fn a_pod_has_the_weight_of_its_annotation() {
    let text = "kind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n---\n\
        kind: Pod\nmetadata: {name: web-1, labels: {app: web}, annotations: {portolan.dev/weight: '30'}}\n\
        status: {podIP: 10.244.1.2}";
    assert_eq!(slices(&good(text), "web")[0].endpoints[0].weight.number(), 30);
}

#[test]
fn weights_of_places_are_names_with_numbers() {
    let text = |value: &str| {
        let metadata = format!("metadata: {{name: web, annotations: {{portolan.dev/zone-weights: {value:?}}}}}");
        format!("kind: Service\n{metadata}\nspec: {{ports: [{{port: 80}}]}}")
    };
    let balancing = service(&good(&text("zone-a=300, zone-b=0")), "web").balancing.clone().expect("there are weights");
    let zones: Vec<(&str, u16)> =
        balancing.places.zones.iter().map(|(zone, weight)| (&**zone, weight.number())).collect();
    assert_eq!(zones, [("zone-a", 300), ("zone-b", 0)]);
    for nonsense in ["zone-a", "zone-a=", "zone-a=1001", "a b=1", "=1", "zone-a=1;zone-b=2"] {
        let (manifests, report) = load(&text(nonsense));
        assert_eq!(service(&manifests, "web").balancing, None, "{nonsense}");
        assert!(printed(&report).contains("metadata.annotations[portolan.dev/zone-weights]"), "{nonsense}");
    }
}

#[test]
fn balancing_is_read_from_annotations() {
    let text = |key: &str, value: &str| {
        let metadata = format!("metadata: {{name: web, annotations: {{portolan.dev/{key}: {value:?}}}}}");
        format!("kind: Service\n{metadata}\nspec: {{ports: [{{port: 80}}]}}")
    };
    let read = |key: &str, value: &str| (*service(&good(&text(key, value)), "web").balancing.clone().unwrap()).clone();
    let half_a_minute = Duration::from_secs(30);
    assert_eq!(read("algorithm", "maglev").algorithm, Some(Algorithm::Maglev));
    assert_eq!(read("slow-start", "30s").slow_start, Some(half_a_minute));
    assert_eq!(read("quarantine", "on").quarantine, Some(true));
    let removed = read("connections-of-removed-endpoints", "reset-after=30s").removed_connections;
    assert_eq!(removed, Some(RemovedConnections::Reset(half_a_minute)));
    assert_eq!(read("rebalance", "idle=30s").rebalance, Some(Rebalance::Idle(half_a_minute)));
    for key in ["algorithm", "hash", "slow-start", "quarantine", "connections-of-removed-endpoints", "rebalance"] {
        let (manifests, report) = load(&text(key, "perhaps"));
        assert_eq!(service(&manifests, "web").balancing, None, "{key}");
        assert!(printed(&report).contains(&format!("metadata.annotations[portolan.dev/{key}]")), "{key}");
    }
}

#[test]
fn traffic_policies_count_where_they_mean_something() {
    let policies = |spec: &[&str]| {
        let service = service(&good(&web(spec)), "web");
        (service.internal_policy, service.external_policy)
    };
    let (cluster, local) = (TrafficPolicy::Cluster, TrafficPolicy::Local);
    let both = ["internalTrafficPolicy: Local", "externalTrafficPolicy: Local"];
    assert_eq!(policies(&both), (local, cluster));
    assert_eq!(policies(&[both[0], both[1], "externalIPs: [192.0.2.9]"]), (local, local));
    assert_eq!(policies(&[both[1], "type: NodePort"]), (cluster, local));
}

#[test]
fn addresses_from_outside() {
    let text = web(&[
        "type: LoadBalancer",
        "externalIPs: [192.0.2.009, '::ffff:192.0.2.10']",
        "loadBalancerSourceRanges: [' 10.0.0.1/8 ', 0.0.0.0/0, '2001:db8::/32']",
    ]) + "status:
  loadBalancer:
    ingress:
    - ip: 192.0.2.20
    - ip: 192.0.2.21
      ipMode: VIP
    - ip: 192.0.2.22
      ipMode: Proxy
    - hostname: lb.example.com
";
    let service = service(&good(&text), "web");
    let texts = |addresses: &[std::net::IpAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&service.external_ips), ["192.0.2.9", "192.0.2.10"]);
    assert_eq!(texts(&service.load_balancer_ips), ["192.0.2.20", "192.0.2.21"]);
    let ranges: Vec<_> = service.source_ranges.iter().map(ToString::to_string).collect();
    assert_eq!(ranges, ["10.0.0.0/8", "0.0.0.0/0", "2001:db8::/32"]);
}

#[test]
fn an_impossible_external_address_is_left_out_and_the_rest_stays() {
    let (manifests, report) = load(&web(&["externalIPs: [300.1.1.1, 127.0.0.1, 192.0.2.9]"]));
    assert_eq!(service(&manifests, "web").external_ips.len(), 1);
    assert_eq!(
        printed(&report),
        "text.yaml:7: Service default/web: spec.externalIPs[0]: \"300.1.1.1\" is not an IP address\n\
         text.yaml:7: Service default/web: spec.externalIPs[1]: 127.0.0.1 is a loopback address\n"
    );
}

#[test]
fn external_names_and_headless_services_have_no_address() {
    let manifests =
        good(&(web(&["type: ExternalName", "externalName: db.example.com"]) + &named("db", &["clusterIP: None"])));
    assert!(service(&manifests, "web").cluster_ips.is_empty());
    assert_eq!(service(&manifests, "web").external_name.as_deref(), Some("db.example.com"));
    assert!(service(&manifests, "db").cluster_ips.is_empty());
}

#[test]
fn a_service_of_another_proxy_is_left_alone_but_holds_its_address() {
    let foreign = web(&["clusterIP: 10.96.0.9"])
        .replace("name: web", "name: web\n  labels: {service.kubernetes.io/service-proxy-name: other}");
    let (manifests, report) = load(&(foreign + &named("late", &["clusterIP: 10.96.0.9"])));
    assert!(manifests.snapshot().services.is_empty());
    assert!(
        printed(&report).contains("10.96.0.9 is held by Service default/web (text.yaml:2)"),
        "{}",
        printed(&report)
    );
}

/// A line of a Service's spec, and the error about it. The spec starts on line 7.
const REFUSALS: &[(&[&str], &str)] = &[
    (&["ports: [{port: 70000}]"], "7: Service default/web: spec.ports[0].port: 70000 is not a port (1 to 65535)"),
    (
        &["ports:", "- port: 80", "  name: a", "- name: b", "  port: 0"],
        "11: Service default/web: spec.ports[1].port: 0 is not",
    ),
    (&["ports: [{port: http}]"], "7: Service default/web: \"http\" is not an integer"),
    (&["ports: [{port: 80.5}]"], "7: Service default/web: 80.5 is not an integer"),
    (&["ports: [{name: a}]"], "7: Service default/web: spec.ports[0].port: a port is required"),
    (&["ports: []"], "7: Service default/web: spec.ports: at least one port is required"),
    (
        &["ports: [{port: 80, protocol: ICMP}]"],
        "7: Service default/web: spec.ports[0].protocol: \"ICMP\" is not a protocol",
    ),
    (&["ports: [{port: 80, name: Web_1}]"], "7: Service default/web: spec.ports[0].name: \"Web_1\" is not a DNS label"),
    (&["ports: [{port: 80, name: a}, {port: 81}]"], "7: Service default/web: spec.ports[1].name: a name is required"),
    (
        &["ports: [{port: 80, name: a}, {port: 81, name: a}]"],
        "7: Service default/web: spec.ports[1].name: \"a\" is the name of another",
    ),
    (
        &["ports: [{port: 80, name: a}, {port: 80, name: b}]"],
        "7: Service default/web: spec.ports[1].port: 80/tcp is the number of another",
    ),
    (
        &["ports: [{port: 80, targetPort: 0x1FFFF}]"],
        "7: Service default/web: spec.ports[0].targetPort: 131071 is not a port",
    ),
    (
        &["ports: [{port: 80, nodePort: 30000}]"],
        "7: Service default/web: spec.ports[0].nodePort: type ClusterIP has no node ports",
    ),
    (
        &["type: NodePort", "ports: [{port: 80, nodePort: 80}]"],
        "8: Service default/web: spec.ports[0].nodePort: 80 is not in the node port range (30000-32767)",
    ),
    (
        &["type: NodePort", "ports: [{port: 80, name: a, nodePort: 30000}, {port: 81, name: b, nodePort: 30000}]"],
        "8: Service default/web: spec.ports[1].nodePort: 30000/tcp is the node port of another port",
    ),
    (&["type: Nodeport"], "7: Service default/web: spec.type: \"Nodeport\" is not a type of Service"),
    (
        &["type: NodePort", "clusterIP: None"],
        "8: Service default/web: spec.clusterIP: None is possible with type ClusterIP only",
    ),
    (&["type: ExternalName"], "6: Service default/web: spec.externalName: type ExternalName requires one"),
    (
        &["type: ExternalName", "externalName: a..b"],
        "8: Service default/web: spec.externalName: \"a..b\" is not a DNS name",
    ),
    (
        &["clusterIP: 10.95.0.1"],
        "7: Service default/web: spec.clusterIP: 10.95.0.1 is not a usable address of the service ranges (10.96.0.0/16, fd00:96::/112)",
    ),
    (&["clusterIP: 10.96.0.0"], "7: Service default/web: spec.clusterIP: 10.96.0.0 is not a usable address"),
    (&["clusterIP: nonsense"], "7: Service default/web: spec.clusterIP: \"nonsense\" is not an IP address"),
    (
        &["clusterIPs: [10.96.0.1, 10.96.0.2]"],
        "7: Service default/web: spec.clusterIPs: there may be one address of each family",
    ),
    (
        &["clusterIP: 10.96.0.1", "clusterIPs: [10.96.0.2]"],
        "7: Service default/web: spec.clusterIP: \"10.96.0.1\" differs",
    ),
    (
        &["clusterIP: 10.96.0.1", "ipFamilies: [IPv6]"],
        "6: Service default/web: spec.clusterIPs[0]: 10.96.0.1 is not an IPv6 address",
    ),
    (&["ipFamilies: [IPv5]"], "7: Service default/web: spec.ipFamilies[0]: \"IPv5\" is not an address family"),
    (&["ipFamilies: [IPv4, IPv4]"], "7: Service default/web: spec.ipFamilies: each family may be named once"),
    (&["ipFamilyPolicy: Both"], "7: Service default/web: spec.ipFamilyPolicy: \"Both\" is not"),
    (
        &["ipFamilyPolicy: SingleStack", "ipFamilies: [IPv4, IPv6]"],
        "7: Service default/web: spec.ipFamilyPolicy: SingleStack does not go with two",
    ),
    (&["sessionAffinity: Cookie"], "7: Service default/web: spec.sessionAffinity: \"Cookie\" is not"),
    (
        &["sessionAffinity: ClientIP", "sessionAffinityConfig:", "  clientIP:", "    timeoutSeconds: 86401"],
        "10: Service default/web: spec.sessionAffinityConfig.clientIP.timeoutSeconds: 86401 is not a timeout (1 to 86400 seconds)",
    ),
    (
        &["internalTrafficPolicy: Node"],
        "7: Service default/web: spec.internalTrafficPolicy: \"Node\" is not a traffic policy",
    ),
    (
        &["externalTrafficPolicy: Node"],
        "7: Service default/web: spec.externalTrafficPolicy: \"Node\" is not a traffic policy",
    ),
    (
        &["loadBalancerSourceRanges: [10.0.0.0/33]"],
        "7: Service default/web: spec.loadBalancerSourceRanges[0]: \"10.0.0.0/33\" is not a CIDR",
    ),
    (&["trafficDistribution: Near"], "7: Service default/web: spec.trafficDistribution: \"Near\" is not"),
    (&["publishNotReadyAddresses: perhaps"], "7: Service default/web: "),
    (&["ports: 80"], "7: Service default/web: "),
    (&["selector: [a]"], "7: Service default/web: "),
    (&["type: ClusterIP", "type: ClusterIP"], "8: Service default/web: "),
];

#[test]
fn every_refusal_names_its_line_and_field() {
    for (spec, expected) in REFUSALS {
        let (manifests, report) = load(&web(spec));
        let printed = printed(&report);
        let expected = format!("text.yaml:{expected}");
        assert!(printed.starts_with(&expected) && printed.lines().count() == 1, "{spec:?}\n {printed} {expected}");
        assert!(manifests.snapshot().services.is_empty());
    }
}

#[test]
fn names_are_checked() {
    for (metadata, expected) in [
        ("{}", "text.yaml:3: metadata.name: a name is required\n"),
        ("{name: 'a b'}", "text.yaml:3: metadata.name: \"a b\" is not a DNS label"),
        ("{name: a.b}", "text.yaml:3: metadata.name: \"a.b\" is not a DNS label"),
        ("{name: web, namespace: '../x'}", "text.yaml:3: metadata.namespace: \"../x\" is not a DNS label"),
        ("{name: \"a\\u001b[2Jb\"}", "text.yaml:3: metadata.name: \"a\\u{1b}[2Jb\" is not a DNS label"),
    ] {
        let (_, report) =
            load(&format!("kind: Service\napiVersion: v1\nmetadata: {metadata}\nspec: {{ports: [{{port: 80}}]}}\n"));
        assert!(printed(&report).starts_with(expected), "{metadata}: {}", printed(&report));
    }
}

#[test]
fn two_families_are_required_but_there_is_one() {
    let options = portolan_source::Options::default();
    let (_, report) = portolan_source::Manifests::from_text(options, "a", &web(&["ipFamilyPolicy: RequireDualStack"]));
    let expected = "a:7: Service default/web: spec.ipFamilyPolicy: two families are required, but there is no IPv6 range \
                    in the service ranges (10.96.0.0/16)\n";
    assert_eq!(printed(&report), expected);
}
