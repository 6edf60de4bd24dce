//! How much CPU time manifests of 50,000 Services with their EndpointSlices take to read, by each of the two YAML readers.
//!
//! `cargo bench -p portolan-source`. A letter beyond ASCII in every document makes the plain reader give up.

use std::time::Duration;

use portolan_source::{Manifests, Options};

const SERVICES: usize = 50_000;

fn main() {
    let plain: String = (0..SERVICES).map(|number| documents(number, "plain")).collect();
    let full: String = (0..SERVICES).map(|number| documents(number, "ü")).collect();
    let (plain, full) = (best(&plain), best(&full));
    let ratio = full.as_secs_f64() / plain.as_secs_f64();
    println!("{SERVICES} Services: plain reader {plain:.2?}, full reader {full:.2?}: {ratio:.1} times as long");
}

/// The best of three.
fn best(text: &str) -> Duration {
    (0..3).map(|_| read(text)).min().unwrap_or_default()
}

fn read(text: &str) -> Duration {
    let ranges = vec![ipnet::Ipv4Net::new_assert([10, 0, 0, 0].into(), 8).into()];
    let options = Options { service_ranges: ranges, ..Options::default() };
    let start = cpu_time();
    let (manifests, report) = Manifests::from_text(options, "bench.yaml", text);
    let elapsed = cpu_time() - start;
    assert_eq!((manifests.snapshot().services.len(), report.problems.len()), (SERVICES, 0));
    elapsed
}

/// Of this thread, which other processes do not disturb.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or_default())
}

fn documents(number: usize, comment: &str) -> String {
    let (high, low) = (number / 250, number % 250 + 1);
    format!(
        "---
apiVersion: v1 # {comment}
kind: Service
metadata:
  name: service-{number}
  namespace: default
  labels:
    app: app-{number}
spec:
  selector:
    app: app-{number}
  ports:
  - name: http
    port: 80
    protocol: TCP
    targetPort: 8080
---
apiVersion: discovery.k8s.io/v1 # {comment}
kind: EndpointSlice
metadata:
  name: service-{number}-abcde
  namespace: default
  labels:
    kubernetes.io/service-name: service-{number}
    endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io
addressType: IPv4
ports:
- name: http
  port: 8080
  protocol: TCP
endpoints:
- addresses:
  - 10.1.{high}.{low}
  conditions:
    ready: true
    serving: true
    terminating: false
  nodeName: node-{low}
- addresses:
  - 10.2.{high}.{low}
  conditions:
    ready: true
    serving: true
    terminating: false
  nodeName: node-{low}
- addresses:
  - 10.3.{high}.{low}
  conditions:
    ready: true
    serving: true
    terminating: false
  nodeName: node-{high}
"
    )
}
