//! The variables that kubelet sets.

use portolan_dns::environment::variables;

use super::support::snapshot;

const SERVICES: &str = "
kind: Service
metadata: {name: kubernetes}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}
---
kind: Service
metadata: {name: redis-primary, namespace: shop}
spec: {clusterIP: 10.96.0.11, ports: [{port: 6379}]}
---
kind: Service
metadata: {name: web, namespace: shop}
spec:
  ipFamilyPolicy: RequireDualStack
  clusterIPs: [\"fd00::20\", 10.96.0.20]
  ports: [{name: http-alt, port: 8080}, {name: dns, port: 53, protocol: UDP}]
---
kind: Service
metadata: {name: quiet, namespace: shop}
spec: {clusterIP: None, ports: [{port: 1}]}
---
kind: Service
metadata: {name: away, namespace: shop}
spec: {type: ExternalName, externalName: example.org}
---
kind: Service
metadata: {name: other}
spec: {clusterIP: 10.96.0.12, ports: [{port: 80}]}
---
kind: Service
metadata: {name: kubernetes, namespace: own}
spec: {clusterIP: 10.96.0.13, ports: [{port: 1}]}
";

fn shown(namespace: &str, with_links: bool) -> Vec<String> {
    let variables = variables(&snapshot(SERVICES), namespace, with_links);
    variables.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

const API_SERVER: [&str; 8] = [
    "KUBERNETES_SERVICE_HOST=10.96.0.1",
    "KUBERNETES_SERVICE_PORT=443",
    "KUBERNETES_SERVICE_PORT_HTTPS=443",
    "KUBERNETES_PORT=tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443",
    "KUBERNETES_PORT_443_TCP_PROTO=tcp",
    "KUBERNETES_PORT_443_TCP_PORT=443",
    "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
];

#[test]
fn all_forms_for_the_services_of_the_namespace() {
    let expected = [
        "REDIS_PRIMARY_SERVICE_HOST=10.96.0.11",
        "REDIS_PRIMARY_SERVICE_PORT=6379",
        "REDIS_PRIMARY_PORT=tcp://10.96.0.11:6379",
        "REDIS_PRIMARY_PORT_6379_TCP=tcp://10.96.0.11:6379",
        "REDIS_PRIMARY_PORT_6379_TCP_PROTO=tcp",
        "REDIS_PRIMARY_PORT_6379_TCP_PORT=6379",
        "REDIS_PRIMARY_PORT_6379_TCP_ADDR=10.96.0.11",
        "WEB_SERVICE_HOST=fd00::20",
        "WEB_SERVICE_PORT=8080",
        "WEB_SERVICE_PORT_HTTP_ALT=8080",
        "WEB_SERVICE_PORT_DNS=53",
        "WEB_PORT=tcp://[fd00::20]:8080",
        "WEB_PORT_8080_TCP=tcp://[fd00::20]:8080",
        "WEB_PORT_8080_TCP_PROTO=tcp",
        "WEB_PORT_8080_TCP_PORT=8080",
        "WEB_PORT_8080_TCP_ADDR=fd00::20",
        "WEB_PORT_53_UDP=udp://[fd00::20]:53",
        "WEB_PORT_53_UDP_PROTO=udp",
        "WEB_PORT_53_UDP_PORT=53",
        "WEB_PORT_53_UDP_ADDR=fd00::20",
    ];
    assert_eq!(shown("shop", true), [&API_SERVER[..], &expected[..]].concat());
}

#[test]
fn the_api_server_is_always_included() {
    assert_eq!(shown("shop", false), API_SERVER);
    assert_eq!(shown("nowhere", true), API_SERVER);
    assert_eq!(shown("own", false), API_SERVER);
    assert_eq!(shown("own", true)[0], "KUBERNETES_SERVICE_HOST=10.96.0.13");
    assert_eq!(shown("default", true).len(), API_SERVER.len() + 7);
}
