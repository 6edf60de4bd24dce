//! A small cluster in a file; this node is node-a.

use std::path::PathBuf;

use portolan_dataplane::mode::Mode;
use portolan_dataplane::{ModeSettings, modes};
use portolan_page::{Known, Usage};
use portolan_plan::{DetectLocal, Plan, PlanConfig, PortKey, plan};
use portolan_source::{Manifests, Options, State};
use tempfile::TempDir;

/// A Service with a ClusterIP, an external address and a node port, and the policy Local.
pub(crate) const WEB: &str = "\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  externalTrafficPolicy: Local
  externalIPs: [192.0.2.80]
  ports:
  - name: http
    port: 80
    targetPort: 8080
    nodePort: 30080
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- addresses: [10.244.1.2]
  nodeName: node-a
  targetRef: {kind: Pod, name: web-a, namespace: default}
- addresses: [10.244.2.2]
  nodeName: node-b
- addresses: [10.244.2.3]
  nodeName: node-b
  conditions: {ready: false}
---
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {topology.kubernetes.io/zone: zone-a}}
status: {addresses: [{type: InternalIP, address: 192.168.50.1}]}
";

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) plan: Plan,
    config: PlanConfig,
    settings: ModeSettings,
    pub(crate) paths: Vec<PathBuf>,
}

impl World {
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("objects.yaml"), text).unwrap();
        let paths = vec![folder.path().to_owned()];
        let state = State::ReadOnly(folder.path().join("state"));
        let options = Options {
            paths: paths.clone(),
            node_name: "node-a".into(),
            service_ranges: vec!["10.96.0.0/16".parse().unwrap()],
            state,
            ..Options::default()
        };
        let mut manifests = Manifests::new(options);
        let report = manifests.reload();
        assert!(report.new_problems.is_empty(), "{:?}", report.new_problems);
        let pods = vec!["10.244.0.0/16".parse().unwrap()];
        let config = PlanConfig { detect_local: DetectLocal::ClusterRange(pods), ..PlanConfig::default() };
        let plan = plan(&manifests.snapshot(), &Plan::default(), &config);
        Self { folder, plan, config, settings: ModeSettings::default(), paths }
    }

    pub(crate) fn known(&self) -> Known<'_> {
        Known {
            plan: &self.plan,
            config: &self.config,
            mode: modes::default(),
            mode_settings: &self.settings,
            manifests: Some(&self.paths),
            change: 7,
            usage: &|_: &PortKey, _| Some(Usage { connections: 3, bytes: 400 }),
        }
    }

    pub(crate) fn mode(&self) -> &'static dyn Mode {
        modes::default()
    }
}
