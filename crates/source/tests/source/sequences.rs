//! Any sequence of edits ends where a fresh start with the same state would.

use std::fs;
use std::path::Path;

use portolan_model::Snapshot;
use portolan_source::{Manifests, Options, State};

use crate::common::{named, options};

/// A small generator of numbers, so that a failure can be repeated by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[self.roll(texts.len() as u64) as usize]
    }
}

fn service(dice: &mut Dice) -> String {
    let name = format!("s{}", dice.roll(12));
    let address = dice.pick(&["type: ClusterIP", "clusterIP: 10.96.0.1", "clusterIP: 10.96.0.2", "clusterIP: None"]);
    let kind = dice.pick(&["sessionAffinity: None", "sessionAffinity: ClientIP", "internalTrafficPolicy: Local"]);
    let ports = dice.pick(&["ports: [{port: 80}]", "ports: [{port: 80, targetPort: http}]"]);
    named(&name, &[address, kind, ports, dice.pick(&["selector: {app: a}", "selector: {app: b}", "externalIPs: []"])])
}

fn node_port_service(dice: &mut Dice) -> String {
    let name = format!("s{}", dice.roll(12));
    let ports = dice.pick(&[
        "ports: [{port: 80}]",
        "ports: [{port: 80, nodePort: 30001}]",
        "ports: [{port: 81, nodePort: 30002}]",
    ]);
    let policy = dice.pick(&["externalTrafficPolicy: Local", "externalTrafficPolicy: Cluster"]);
    named(&name, &[dice.pick(&["type: NodePort", "type: LoadBalancer"]), ports, policy])
}

fn pod(dice: &mut Dice) -> String {
    let (name, app, node) = (dice.roll(8), dice.pick(&["a", "b"]), dice.pick(&["here", "there"]));
    format!(
        "---\nkind: Pod\nmetadata:\n  name: p{name}\n  labels:\n    app: {app}\nspec:\n  nodeName: {node}\n  containers:\n  \
         - ports: [{{name: http, containerPort: {}}}]\nstatus:\n  podIP: 10.1.0.{}\n",
        8080 + dice.roll(2),
        dice.roll(200) + 1
    )
}

fn slice(dice: &mut Dice) -> String {
    let (name, service) = (dice.roll(8), dice.roll(12));
    format!(
        "---\nkind: EndpointSlice\nmetadata:\n  name: e{name}\n  labels:\n    kubernetes.io/service-name: s{service}\n\
         addressType: IPv4\nendpoints:\n- addresses:\n  - 10.2.0.{}\n",
        dice.roll(200) + 1
    )
}

fn other(dice: &mut Dice) -> String {
    let service = dice.roll(12);
    match dice.roll(3) {
        0 => format!(
            "---\nkind: Endpoints\nmetadata:\n  name: s{service}\nsubsets: [{{addresses: [{{ip: 10.3.0.1}}]}}]\n"
        ),
        1 => format!(
            "---\nkind: Node\nmetadata: {{name: here, labels: {{topology.kubernetes.io/zone: z{}}}}}\n",
            dice.roll(2)
        ),
        _ => "---\nkind: Deployment\nmetadata: {name: x}\n".to_owned(),
    }
}

fn file(dice: &mut Dice) -> String {
    let count = dice.roll(6);
    (0..count)
        .map(|_| match dice.roll(6) {
            0 | 1 => service(dice),
            2 => node_port_service(dice),
            3 => pod(dice),
            4 => slice(dice),
            _ => other(dice),
        })
        .collect()
}

fn edit(directory: &Path, dice: &mut Dice) {
    let path = directory.join(format!("{}.yaml", dice.roll(6)));
    match dice.roll(5) {
        0 => drop(fs::remove_file(path)),
        _ => fs::write(path, file(dice)).unwrap(),
    }
}

fn fresh(manifests: &Path, state: &Path) -> Manifests {
    let options = Options { paths: vec![manifests.to_owned()], state: State::ReadWrite(state.to_owned()), ..options() };
    Manifests::new(options)
}

fn shown(snapshot: &Snapshot) -> String {
    format!("{:#?}", (&snapshot.node, &snapshot.services, &snapshot.slices))
}

#[test]
fn edits_end_where_a_fresh_start_does() {
    for seed in 0..8 {
        let directory = tempfile::tempdir().unwrap();
        let (manifests, state) = (directory.path().join("manifests"), directory.path().join("state"));
        fs::create_dir(&manifests).unwrap();
        let mut dice = Dice(seed);
        let mut long_running = fresh(&manifests, &state);
        for step in 0..25 {
            (0..=dice.roll(3)).for_each(|_| edit(&manifests, &mut dice));
            let report = long_running.reload();
            let mut restarted = fresh(&manifests, &state);
            let restarted_report = restarted.reload();
            assert_eq!(shown(&long_running.snapshot()), shown(&restarted.snapshot()), "seed {seed}, step {step}");
            assert_eq!(
                crate::common::printed(&report),
                crate::common::printed(&restarted_report),
                "seed {seed}, step {step}"
            );
        }
    }
}
