//! The shortest way through: text in, snapshot out.

use portolan_model::{Conditions, ServiceName};
use portolan_source::{Manifests, Options};

const TEXT: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: http}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  labels:
    app: web
spec:
  containers:
  - ports:
    - {name: http, containerPort: 8080}
status:
  podIP: 10.1.0.1
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-extra
  labels:
    kubernetes.io/service-name: web
addressType: IPv4
ports:
- {name: http, port: 8081}
endpoints:
- addresses: [10.1.0.2]
---
apiVersion: v1
kind: Node
metadata:
  name: here
  labels:
    topology.kubernetes.io/zone: a
spec:
  podCIDRs: [10.1.0.0/24]
status:
  addresses:
  - {type: ExternalIP, address: 203.0.113.1}
  - {type: InternalIP, address: 192.0.2.1}
";

#[test]
fn a_service_with_pods_slices_and_a_node() {
    let options = Options { node_name: "here".to_owned(), ..Options::default() };
    let (manifests, report) = Manifests::from_text(options, "text.yaml", TEXT);
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let snapshot = manifests.snapshot();
    let name = ServiceName::new("default", "web");
    let service = &snapshot.services[&name];
    assert_eq!(service.cluster_ips.len(), 1);
    let slices = &snapshot.slices[&name].0;
    assert_eq!(slices.iter().map(|slice| &*slice.name).collect::<Vec<_>>(), ["web-extra", "web-v4-0"]);
    assert_eq!(slices[1].ports[0].port, 8080);
    assert_eq!(slices[1].endpoints[0].node().map(|it| &**it), Some("here"));
    assert_eq!(slices[1].endpoints[0].conditions, Conditions::READY);
    assert_eq!(snapshot.node.addresses[0].to_string(), "192.0.2.1");
    assert_eq!(snapshot.node.zone.as_deref(), Some("a"));
    assert_eq!(manifests.origin(&name).as_deref(), Some("text.yaml:2"));
}
