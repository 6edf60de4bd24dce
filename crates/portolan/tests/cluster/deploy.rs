//! A real API server accepts the contents of `deploy/`, and the program runs without any other file.

use std::path::{Path, PathBuf};
use std::process::Command;

use portolan_testkit::cluster::{path_of, read_manifests};
use serde_json::Value;

use crate::cluster::Cluster;
use crate::portolan::text;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Linted by their own tools, and rendered.
fn rendered() -> Vec<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(repository().join("tests/deploy/lint")).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    ["kustomize.yaml", "kustomize-dns.yaml", "kustomize-node-local-dns.yaml", "helm-kubeadm.yaml", "helm-plain.yaml"]
        .map(|name| read_manifests(&std::fs::read_to_string(folder.path().join(name)).unwrap()).unwrap())
        .into()
}

#[test]
fn the_api_server_accepts_what_is_deployed() {
    let cluster = Cluster::start();
    for objects in rendered() {
        assert!(objects.iter().any(|object| object["kind"] == "DaemonSet" || object["kind"] == "Deployment"));
        for object in &objects {
            cluster.create(object);
        }
        for object in &objects {
            cluster.delete(&path_of(object));
        }
    }
}
