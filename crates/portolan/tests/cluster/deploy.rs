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

const RENDERED: &[&str] = &[
    "kustomize.yaml",
    "kustomize-shadow.yaml",
    "kustomize-ebpf.yaml",
    "kustomize-dns.yaml",
    "kustomize-node-local-dns.yaml",
    "kustomize-windows.yaml",
    "helm-kubeadm.yaml",
    "helm-plain.yaml",
    "helm-ebpf.yaml",
    "helm-ebpf-pods.yaml",
    "helm-windows.yaml",
    "helm-windows-overlay.yaml",
];

/// Linted by their own tools, and rendered.
fn rendered() -> Vec<Vec<Value>> {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(repository().join("tests/deploy/lint")).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let read = |name: &&str| read_manifests(&std::fs::read_to_string(folder.path().join(name)).unwrap()).unwrap();
    RENDERED.iter().map(read).collect()
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

/// The daemon's container of a rendering.
fn container(name: &str, rendered: &[Vec<Value>]) -> Value {
    let objects = &rendered[RENDERED.iter().position(|it| *it == name).unwrap()];
    let daemon = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    daemon["spec"]["template"]["spec"]["containers"][0].clone()
}

/// `three_capabilities_and_a_read_only_cgroup_are_enough` shows that nothing else is needed.
#[test]
fn ebpf_mode_has_its_mounts_and_capabilities_and_the_other_modes_have_not() {
    let rendered = rendered();
    for (name, is_ebpf) in [
        ("kustomize.yaml", false),
        ("kustomize-ebpf.yaml", true),
        ("helm-kubeadm.yaml", false),
        ("helm-plain.yaml", false),
        ("helm-ebpf.yaml", true),
    ] {
        let container = container(name, &rendered);
        let capabilities = container["securityContext"]["capabilities"]["add"].to_string();
        let expected = if is_ebpf { r#"["NET_ADMIN","BPF","PERFMON"]"# } else { r#"["NET_ADMIN"]"# };
        assert_eq!(capabilities, expected, "{name}");
        let mounts: Vec<&str> = container["volumeMounts"].as_array().unwrap().iter().map(path_in_container).collect();
        assert_eq!(mounts.contains(&"/sys/fs/bpf"), is_ebpf, "{name}: {mounts:?}");
        assert_eq!(mounts.contains(&"/host/sys/fs/cgroup"), is_ebpf, "{name}: {mounts:?}");
        let arguments = container["args"].to_string();
        assert_eq!(arguments.contains("--ebpf-cgroup=/host/sys/fs/cgroup"), is_ebpf, "{name}: {arguments}");
    }
}

#[test]
fn ebpf_mode_enters_the_namespaces_of_pods_if_it_is_allowed_to() {
    let container = container("helm-ebpf-pods.yaml", &rendered());
    let capabilities = container["securityContext"]["capabilities"]["add"].to_string();
    assert_eq!(capabilities, r#"["NET_ADMIN","BPF","PERFMON","SYS_ADMIN"]"#);
    let mounts: Vec<&str> = container["volumeMounts"].as_array().unwrap().iter().map(path_in_container).collect();
    assert!(mounts.contains(&"/run/netns"), "{mounts:?}");
}

fn path_in_container(mount: &Value) -> &str {
    mount["mountPath"].as_str().unwrap()
}

/// The Pods of a rendering, by the operating system that they select.
fn pods<'a>(name: &str, rendered: &'a [Vec<Value>]) -> Vec<(&'a str, &'a Value)> {
    let objects = &rendered[RENDERED.iter().position(|it| *it == name).unwrap()];
    let daemons = objects.iter().filter(|object| object["kind"] == "DaemonSet");
    let pods = daemons.map(|daemon| &daemon["spec"]["template"]["spec"]);
    pods.map(|pod| (pod["nodeSelector"]["kubernetes.io/os"].as_str().unwrap(), pod)).collect()
}

#[test]
fn windows_nodes_have_processes_of_the_host_and_linux_nodes_have_not() {
    let rendered = rendered();
    for (name, systems) in [
        ("kustomize.yaml", &["linux"][..]),
        ("helm-kubeadm.yaml", &["linux"]),
        ("kustomize-windows.yaml", &["windows"]),
        ("helm-windows.yaml", &["linux", "windows"]),
        ("helm-windows-overlay.yaml", &["linux", "windows"]),
    ] {
        let pods = pods(name, &rendered);
        assert_eq!(pods.iter().map(|(system, _)| *system).collect::<Vec<_>>(), systems, "{name}");
        for (system, pod) in pods {
            let options = &pod["securityContext"]["windowsOptions"];
            assert_eq!(options["hostProcess"] == true, system == "windows", "{name}: {options}");
            assert_eq!(options["runAsUserName"] == r"NT AUTHORITY\SYSTEM", system == "windows", "{name}: {options}");
            assert_eq!(pod["hostNetwork"], true, "{name}");
            let environment = pod["containers"][0]["env"].to_string();
            assert_eq!(environment.contains("KUBE_NETWORK"), system == "windows", "{name}: {environment}");
        }
    }
    let overlay = pods("helm-windows-overlay.yaml", &rendered)[1].1["containers"][0]["args"].to_string();
    assert!(overlay.contains("Calico_ep") && overlay.contains("--source-vip=$vip"), "{overlay}");
}
