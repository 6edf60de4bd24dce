//! The objects of these tests: two nodes, a Service with three kinds of frontends, one without endpoints, and DNS.

use std::fmt::Write;

pub(crate) const NODES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {topology.kubernetes.io/zone: east}}
spec: {podCIDRs: [10.244.1.0/24]}
status: {addresses: [{type: InternalIP, address: 192.168.50.1}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-b, labels: {topology.kubernetes.io/zone: west}}
spec: {podCIDRs: [10.244.2.0/24]}
status: {addresses: [{type: InternalIP, address: 192.168.50.2}]}
";

/// The frontends of `web`, whose external traffic stays on the node.
const WEB: &str = "\
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.80
  externalTrafficPolicy: Local
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080, nodePort: 30080}
status:
  loadBalancer:
    ingress:
    - ip: 198.51.100.10
";

pub(crate) const EMPTY: &str = "\
apiVersion: v1
kind: Service
metadata: {name: reports, namespace: shop}
spec:
  clusterIP: 10.96.0.81
  selector: {app: reports}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: reports-1, namespace: shop, labels: {app: reports}}
spec: {nodeName: node-a}
status:
  podIPs: [{ip: 10.244.1.9}]
  conditions: [{type: Ready, status: 'False'}]
";

pub(crate) const DNS: &str = "\
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec:
  clusterIP: 10.96.0.10
  selector: {app: dns}
  ports:
  - {name: dns, protocol: UDP, port: 53}
  - {name: dns-tcp, protocol: TCP, port: 53}
---
apiVersion: v1
kind: Pod
metadata: {name: dns-1, namespace: kube-system, labels: {app: dns}}
spec: {nodeName: node-b}
status: {podIPs: [{ip: 10.244.2.3}]}
";

/// `web` with pods at these addresses; those of 10.244.1.0/24 are on node-a.
pub(crate) fn web(addresses: &[&str]) -> String {
    let mut text = WEB.to_owned();
    for (at, address) in addresses.iter().enumerate() {
        let node = if address.starts_with("10.244.1.") { "node-a" } else { "node-b" };
        let number = at + 1;
        write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: web-{number}, labels: {{app: web}}}}\n\
             spec: {{nodeName: {node}}}\nstatus: {{podIPs: [{{ip: {address}}}]}}\n"
        )
        .unwrap();
    }
    text
}

pub(crate) const WEB_PODS: [&str; 3] = ["10.244.1.2", "10.244.1.3", "10.244.2.2"];

/// Many Services, each with one endpoint.
pub(crate) fn many(count: usize) -> String {
    let mut text = String::new();
    for at in 0..count {
        let (high, low) = (at / 250 + 1, at % 250 + 1);
        write!(
            text,
            "apiVersion: v1\nkind: Service\nmetadata: {{name: service-{at:05}, namespace: space-{}}}\n\
             spec: {{clusterIP: 10.96.{high}.{low}, ports: [{{port: 80}}]}}\n---\n\
             apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
             metadata: {{name: slice-{at:05}, namespace: space-{}, labels: {{kubernetes.io/service-name: service-{at:05}}}}}\n\
             addressType: IPv4\nports: [{{port: 8080, protocol: TCP}}]\nendpoints: [{{addresses: [10.244.{high}.{low}]}}]\n---\n",
            at % 20,
            at % 20
        )
        .unwrap();
    }
    text
}
