//! Manifests change while the daemon runs.

use std::fs;
use std::os::unix::fs::symlink;

use crate::node::{Node, WEB, WEB_IP, service, web};
use crate::poll::until;
use portolan_testkit::Protocol;

#[test]
fn an_edit_moves_traffic() {
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2", "10.244.1.3"]))]);
    node.serve(&["10.244.1.2:8080", "10.244.1.3:8080", "10.244.2.2:8080"], Protocol::Tcp);
    assert_eq!(node.answers("pod-a3", WEB), ["pod-a1", "pod-a2"]);
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.3", "10.244.2.2"]));
    until("pod-b1 is in and pod-a1 out", || node.answers("pod-a3", WEB) == ["pod-a2", "pod-b1"]);
    node.remove("web.yaml");
    until("the Service is gone", || node.nft("list map ip portolan services").lines().all(|it| !it.contains(WEB_IP)));
}

/// A mounted ConfigMap changes by the swap of one symbolic link.
#[test]
fn a_swapped_link_is_an_edit() {
    let mut node = Node::new();
    let manifests = node.path("manifests");
    for (version, endpoint) in [("..1", "10.244.1.2"), ("..2", "10.244.2.2")] {
        fs::create_dir(manifests.join(version)).unwrap();
        fs::write(manifests.join(version).join("web.yaml"), web(WEB_IP, &[endpoint])).unwrap();
    }
    symlink("..1", manifests.join("..data")).unwrap();
    symlink("..data/web.yaml", manifests.join("web.yaml")).unwrap();
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    node.start();
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
    symlink("..2", manifests.join("..new")).unwrap();
    fs::rename(manifests.join("..new"), manifests.join("..data")).unwrap();
    until("pod-b1 answers", || node.answer("pod-a3", WEB, Protocol::Tcp) == "pod-b1");
}

#[test]
fn a_broken_edit_is_reported_and_changes_nothing() {
    let node = Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))]);
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    let broken =
        web(WEB_IP, &["10.244.2.2"]).replace("port: 80,", "port: eighty,").replace("10.244.2.2", "10.244.2.299");
    node.write("web.yaml", &broken);
    let file = node.path("manifests/web.yaml");
    for line in [6, 15] {
        let place = format!("] {}:{line}: ", file.display());
        until("the log names the place of the error", || node.log().contains(&place));
    }
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
    assert!(node.query(&["verify"]).status.success());
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    node.settle();
    assert_eq!(node.answer("pod-a3", WEB, Protocol::Tcp), "pod-a1");
}

/// Documents with one error each.
const BROKEN: [&str; 20] = [
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: [{port: 70000}]}\n",
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: [{port: 0}]}\n",
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: []}\n",
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: [{port: 80}], type: Teapot}\n",
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: [{port: 80, protocol: ICMP}]}\n",
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: [{port: 80}], clusterIP: ten}\n",
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: [{port: 80}], clusterIP: 192.0.2.1}\n",
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: [{port: 80}], sessionAffinity: Forever}\n",
    "kind: Service\nmetadata: {name: xN}\n",
    "kind: Service\nmetadata: {name: [xN]}\nspec: {ports: [{port: 80}]}\n",
    "kind: Service\nmetadata: {name: NOT-LOWER}\nspec: {ports: [{port: 80}]}\n",
    "kind: Service\nmetadata: {}\nspec: {ports: [{port: 80}]}\n",
    "kind: Service\nmetadata: {name: xN}\nspec: {ports: [{port: 80}\n",
    "kind: Service\n\tmetadata: tab\n",
    "just a text\n",
    "- a\n- list\n",
    "kind: EndpointSlice\nmetadata: {name: xN}\n",
    "kind: Pod\nmetadata: {name: xN}\nstatus: {podIP: ten}\n",
    "kind: Node\nmetadata: {name: xN}\nspec: {podCIDRs: [10.0.0.0]}\n",
    "kind: Endpoints\nmetadata: {name: xN}\nsubsets: [{addresses: [{ip: 0.0.0.0}]}]\n",
];

#[test]
fn broken_documents_do_not_affect_others() {
    let good = |index: usize| service(&format!("good-{index}"), &cluster_ip(index), "type: ClusterIP", &["10.244.1.2"]);
    let text: Vec<String> = (0..)
        .zip(BROKEN)
        .map(|(index, broken)| format!("{}---\n{}", good(index), broken.replace("xN", &format!("x{index}"))))
        .collect();
    let node = Node::running(&[("all.yaml", &text.join("---\n"))]);
    node.serve(&["10.244.1.2:8080"], Protocol::Tcp);
    let file = format!("] {}:", node.path("manifests/all.yaml").display());
    let log = node.log();
    let errors: Vec<&str> = log.lines().filter(|line| line.starts_with('E') && line.contains(&file)).collect();
    assert_eq!(errors.len(), BROKEN.len(), "{}", errors.join("\n"));
    for index in 0..BROKEN.len() {
        let to = format!("{}:80", cluster_ip(index));
        assert_eq!(node.answer("pod-a3", &to, Protocol::Tcp), "pod-a1", "{to}");
    }
}

fn cluster_ip(index: usize) -> String {
    format!("10.96.1.{}", index + 1)
}
