//! Slices: written, made from Pods, mirrored from Endpoints.

use portolan_model::Conditions;

use crate::common::{good, load, named, printed, shown, slices, web};

fn pod(name: &str, address: &str, rest: &str) -> String {
    format!("---\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{app: web}}\nstatus:\n  podIP: {address}\n{rest}")
}

const SELECTOR: &str = "selector: {app: web}";

#[test]
fn pods_of_the_selector() {
    let stranger = pod("x", "10.1.0.9", "").replace("app: web", "app: other");
    let text = web(&[SELECTOR]) + &pod("b", "10.1.0.2", "") + &pod("a", "10.1.0.1", "") + &stranger;
    assert_eq!(shown(&good(&text), "web"), ["web-v4-0 :80/tcp 10.1.0.1,10.1.0.2"]);
}

#[test]
fn a_selector_needs_all_its_labels_and_its_own_namespace() {
    let elsewhere = pod("c", "10.1.0.3", "").replace("name: c", "name: c\n  namespace: other");
    let both = pod("b", "10.1.0.2", "").replace("{app: web}", "{app: web, tier: front}");
    let text = web(&["selector: {app: web, tier: front}"]) + &pod("a", "10.1.0.1", "") + &both + &elsewhere;
    assert_eq!(shown(&good(&text), "web"), ["web-v4-0 :80/tcp 10.1.0.2"]);
}

#[test]
fn conditions_of_pods() {
    let condition = |status: &str| format!("  conditions: [{{type: Ready, status: '{status}'}}]\n");
    let terminating = |pod: String| pod.replace("metadata:", "metadata:\n  deletionTimestamp: 2026-01-01T00:00:00Z");
    let text = pod("a", "10.1.0.1", "")
        + &pod("b", "10.1.0.2", &condition("True"))
        + &pod("c", "10.1.0.3", &condition("False"))
        + &terminating(pod("d", "10.1.0.4", &condition("True")))
        + &terminating(pod("e", "10.1.0.5", &condition("False")))
        + &pod("f", "10.1.0.6", "  conditions: [{type: PodScheduled, status: 'True'}]\n")
        + &pod("g", "10.1.0.7", "  phase: Succeeded\n")
        + &pod("h", "10.1.0.8", "  phase: Failed\n")
        + &pod("i", "''", "");
    let expected = "web-v4-0 :80/tcp 10.1.0.1,10.1.0.2,10.1.0.3(not ready),10.1.0.4(draining),10.1.0.5(terminating),10.1.0.6(not ready)";
    assert_eq!(shown(&good(&(web(&[SELECTOR]) + &text)), "web"), [expected]);
    let published = good(&(web(&[SELECTOR, "publishNotReadyAddresses: true"]) + &text));
    assert!(slices(&published, "web")[0].endpoints.iter().all(|endpoint| endpoint.conditions.ready));
}

#[test]
fn named_target_ports_differ_by_pod() {
    let container = |field: &str, name: &str, port: u16, rest: &str| {
        format!("spec:\n  {field}:\n  - name: c\n    ports: [{{name: {name}, containerPort: {port}{rest}}}]\n")
    };
    let sidecar = container("initContainers", "http", 8082, "") + "    restartPolicy: Always\n";
    let text =
        web(&["ports: [{name: http, port: 80, targetPort: http}, {name: fix, port: 81, targetPort: 9000}]", SELECTOR])
            + &pod("a", "10.1.0.1", &container("containers", "http", 8080, ""))
            + &pod("b", "10.1.0.2", &container("containers", "http", 8081, ""))
            + &pod("c", "10.1.0.3", &container("containers", "http", 8080, ""))
            + &pod("d", "10.1.0.4", &container("containers", "http", 8080, ", protocol: UDP"))
            + &pod("e", "10.1.0.5", &sidecar)
            + &pod("f", "10.1.0.6", &container("initContainers", "http", 8083, ""));
    assert_eq!(
        shown(&good(&text), "web"),
        [
            "web-v4-0 fix:9000/tcp 10.1.0.4,10.1.0.6",
            "web-v4-1 http:8080/tcp,fix:9000/tcp 10.1.0.1,10.1.0.3",
            "web-v4-2 http:8081/tcp,fix:9000/tcp 10.1.0.2",
            "web-v4-3 http:8082/tcp,fix:9000/tcp 10.1.0.5",
        ]
    );
}

#[test]
fn a_slice_for_each_family_of_the_service() {
    let ips = "  podIPs: [{ip: 10.1.0.1}, {ip: 'fd01::1'}]\n";
    let text = pod("a", "10.1.0.1", ips);
    assert_eq!(shown(&good(&(web(&[SELECTOR]) + &text)), "web"), ["web-v4-0 :80/tcp 10.1.0.1"]);
    let both = good(&(web(&[SELECTOR, "ipFamilyPolicy: PreferDualStack"]) + &text));
    assert_eq!(shown(&both, "web"), ["web-v4-0 :80/tcp 10.1.0.1", "web-v6-0 :80/tcp fd01::1"]);
    let headless = good(&(web(&[SELECTOR, "clusterIP: None", "ports: []"]) + &text));
    assert_eq!(shown(&headless, "web"), ["web-v4-0  10.1.0.1"]);
}

#[test]
fn nodes_and_host_names_of_pods() {
    let text = pod("a", "10.1.0.1", "spec: {nodeName: there, hostname: first, subdomain: web}\n")
        + &pod("b", "10.1.0.2", "spec: {hostNetwork: true, hostname: second, subdomain: other}\n");
    let slices = slices(&good(&(web(&[SELECTOR]) + &text)), "web");
    let facts = slices[0].endpoints.iter().map(|endpoint| (endpoint.node().map(|it| &**it), endpoint.hostname()));
    assert_eq!(facts.collect::<Vec<_>>(), [(Some("there"), Some("first")), (Some("here"), None)]);
}

#[test]
fn hints_follow_the_traffic_distribution() {
    let nodes = "---\nkind: Node\nmetadata: {name: there, labels: {topology.kubernetes.io/zone: z}}\n";
    let text = nodes.to_owned()
        + &pod("a", "10.1.0.1", "spec: {nodeName: there}\n")
        + &pod("b", "10.1.0.2", "spec: {nodeName: nowhere}\n")
        + &pod("c", "10.1.0.3", "  conditions: [{type: Ready, status: 'False'}]\nspec: {nodeName: there}\n");
    let hints = |distribution: &str| {
        let manifests = good(&(web(&[SELECTOR, distribution]) + &text));
        let endpoints = slices(&manifests, "web")[0].endpoints.clone();
        let show = |hints: &portolan_model::Hints| format!("{:?} {:?}", hints.zones, hints.nodes);
        endpoints.iter().map(|endpoint| endpoint.hints().map(show)).collect::<Vec<_>>()
    };
    assert_eq!(hints("type: ClusterIP"), [None, None, None]);
    let zone = Some("[\"z\"] []".to_owned());
    assert_eq!(hints("trafficDistribution: PreferClose"), [zone.clone(), None, None]);
    assert_eq!(hints("trafficDistribution: PreferSameZone"), [zone, None, None]);
    let node = [Some("[\"z\"] [\"there\"]".to_owned()), Some("[] [\"nowhere\"]".to_owned()), None];
    assert_eq!(hints("trafficDistribution: PreferSameNode"), node);
}

#[test]
fn a_node_that_changes_its_zone_changes_the_hints() {
    let node = "---\nkind: Node\nmetadata: {name: here, labels: {topology.kubernetes.io/zone: z}}\n";
    let text = web(&[SELECTOR, "trafficDistribution: PreferClose"]) + &pod("a", "10.1.0.1", "");
    let mut manifests = good(&text);
    assert!(manifests.set_text(&(text + node)).changed);
    assert!(slices(&manifests, "web")[0].endpoints[0].hints().is_some());
}

const SUBSETS: &str = "---
kind: Endpoints
metadata:
  name: web
subsets:
- addresses: [{ip: 10.1.0.1, nodeName: there, hostname: h}, {ip: 'fd01::1'}]
  notReadyAddresses: [{ip: 10.1.0.2}]
  ports: [{name: a, port: 8080}]
- addresses: [{ip: 10.1.0.1}]
  ports: [{name: b, port: 9090, protocol: UDP}]
";

#[test]
fn endpoints_are_mirrored_where_there_is_no_selector() {
    let manifests = good(&(web(&[]) + SUBSETS));
    assert_eq!(
        shown(&manifests, "web"),
        [
            "web-mirrored-v4-0 a:8080/tcp 10.1.0.1,10.1.0.2(not ready)",
            "web-mirrored-v4-1 b:9090/udp 10.1.0.1",
            "web-mirrored-v6-0 a:8080/tcp fd01::1",
        ]
    );
    let endpoint = &slices(&manifests, "web")[0].endpoints[0];
    assert_eq!((endpoint.node().map(|it| &**it), endpoint.hostname()), (Some("there"), Some("h")));
    assert!(shown(&good(&(web(&[SELECTOR]) + SUBSETS)), "web").is_empty());
    assert!(shown(&good(SUBSETS), "web").is_empty());
    let skipped =
        SUBSETS.replace("name: web", "name: web\n  labels: {endpointslice.kubernetes.io/skip-mirror: 'true'}");
    assert!(shown(&good(&(web(&[]) + &skipped)), "web").is_empty());
}

fn slice(rest: &str) -> String {
    let labels = "{kubernetes.io/service-name: web}";
    format!("---\nkind: EndpointSlice\nmetadata:\n  name: s\n  labels: {labels}\naddressType: IPv4\n{rest}")
}

#[test]
fn slices_are_read_as_kube_proxy_reads_them() {
    for (rest, expected) in [
        ("ports: [{name: '', port: 80}]\nendpoints: [{addresses: [10.1.0.1]}]", "s :80/tcp 10.1.0.1"),
        ("ports: [{port: 80}, {name: a}, {name: b, port: 0}]\nendpoints: []", "s :80/tcp "),
        ("ports: null\nendpoints: null", "s  "),
        ("endpoints: [{addresses: [10.1.0.1, 10.1.0.2]}, {addresses: []}]", "s  10.1.0.1"),
        ("endpoints: [{addresses: [10.001.0.01]}]", "s  10.1.0.1"),
        ("endpoints: [{addresses: [10.1.0.1], conditions: {ready: null}}]", "s  10.1.0.1"),
        ("endpoints: [{addresses: [10.1.0.1], conditions: {ready: false}}]", "s  10.1.0.1(not ready)"),
        (
            "endpoints: [{addresses: [10.1.0.1], conditions: {ready: false, terminating: true}}]",
            "s  10.1.0.1(draining)",
        ),
    ] {
        assert_eq!(shown(&good(&slice(rest)), "web"), [expected], "{rest}");
    }
}

#[test]
fn absent_conditions_are_good_ones() {
    let manifests =
        good(&slice("endpoints: [{addresses: [10.1.0.1], hints: {forZones: [{name: z}], forNodes: [{name: n}]}}]"));
    let endpoint = slices(&manifests, "web")[0].endpoints[0].clone();
    assert_eq!(endpoint.conditions, Conditions::READY);
    let hints = endpoint.hints().unwrap();
    assert_eq!((&*hints.zones[0], &*hints.nodes[0]), ("z", "n"));
}

#[test]
fn slices_that_are_not_ours() {
    let endpoints = "endpoints: [{addresses: [10.1.0.1]}]";
    assert!(shown(&good(&slice(endpoints).replace("IPv4", "FQDN").replace("10.1.0.1", "a.example")), "web").is_empty());
    assert!(good(&slice(endpoints).replace("kubernetes.io/service-name", "other")).snapshot().slices.is_empty());
    let headless = slice(endpoints).replace("-name: web", "-name: web, service.kubernetes.io/headless: ''");
    assert!(shown(&good(&(web(&[]) + &headless)), "web").is_empty());
    assert_eq!(shown(&good(&(web(&["clusterIP: None"]) + &headless)), "web").len(), 1);
}

#[test]
fn slices_are_refused_with_their_line() {
    for (rest, expected) in [
        (
            "endpoints:\n- addresses: [127.0.0.1]",
            "text.yaml:8: EndpointSlice default/s: endpoints[0].addresses[0]: 127.0.0.1 is a loopback",
        ),
        (
            "endpoints: [{addresses: [nonsense]}]",
            "text.yaml:7: EndpointSlice default/s: endpoints[0].addresses[0]: \"nonsense\" is not an IP",
        ),
        (
            "endpoints: [{addresses: ['fd00::1']}]",
            "text.yaml:7: EndpointSlice default/s: endpoints[0].addresses[0]: fd00::1 is not an IPv4",
        ),
        ("ports: [{name: a, port: 65536}]", "text.yaml:7: EndpointSlice default/s: ports[0].port: 65536 is not a port"),
        (
            "endpoints: [{addresses: [10.0.0.1], nodeName: 'x y'}]",
            "text.yaml:7: EndpointSlice default/s: endpoints[0].nodeName: \"x y\"",
        ),
    ] {
        let printed = printed(&load(&slice(rest)).1);
        assert!(printed.starts_with(expected), "{rest}: {printed}");
    }
    let printed = printed(&load(&slice("").replace("IPv4", "IPv5")).1);
    assert!(printed.contains("6: EndpointSlice default/s: addressType: \"IPv5\" is not an address type"), "{printed}");
}

#[test]
fn written_slices_and_pods_both_count() {
    let text = web(&[SELECTOR]) + &pod("a", "10.1.0.1", "") + &slice("endpoints: [{addresses: [10.1.0.9]}]\n");
    assert_eq!(shown(&good(&text), "web").len(), 2);
    assert!(shown(&good(&(text + &named("other", &[]))), "other").is_empty());
}

/// A Pod of another namespace, of another kind, or with a name that no Pod has is ignored, and costs no endpoint.
#[test]
fn an_endpoint_has_the_name_of_its_pod() {
    let made = good(&(web(&[SELECTOR]) + &pod("a", "10.1.0.1", "")));
    let names = |manifests: &portolan_source::Manifests| -> Vec<Option<String>> {
        let slices = slices(manifests, "web");
        slices.iter().flat_map(|slice| &slice.endpoints).map(|it| it.pod.as_deref().map(str::to_owned)).collect()
    };
    assert_eq!(names(&made), [Some("a".to_owned())]);
    let target = |address: &str, target: &str| format!("- {{addresses: [{address}], targetRef: {{{target}}}}}\n");
    let written = web(&[])
        + "---\nkind: EndpointSlice\nmetadata: {name: web-1, labels: {kubernetes.io/service-name: web}}\n\
           addressType: IPv4\nports: [{port: 80}]\nendpoints:\n"
        + &target("10.1.0.1", "kind: Pod, name: web-1, namespace: default")
        + &target("10.1.0.2", "kind: Pod, name: web-2, namespace: other")
        + &target("10.1.0.3", "kind: Node, name: web-3")
        + &target("10.1.0.4", "kind: Pod, name: \"evil\\e[2J\"")
        + &target("10.1.0.5", "kind: Pod, name: web-5");
    let expected = [Some("web-1"), None, None, None, Some("web-5")].map(|name| name.map(str::to_owned));
    assert_eq!(names(&good(&written)), expected);
}

#[test]
fn pods_and_nodes_are_known_by_name() {
    let node =
        "---\nkind: Node\nmetadata: {name: node-b}\nstatus: {addresses: [{type: InternalIP, address: 192.0.2.2}]}\n";
    let snapshot = good(&(web(&[SELECTOR]) + &pod("a", "10.1.0.1", "") + node)).snapshot();
    let address = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    let pod = snapshot.pods_by_name.get(&("default".into(), "a".into())).unwrap();
    assert_eq!(**pod, [address("10.1.0.1")]);
    assert_eq!(*snapshot.nodes["node-b"], [address("192.0.2.2")]);
}
