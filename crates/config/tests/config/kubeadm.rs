//! The ConfigMaps that kubeadm has made over the years work unchanged, and quietly.

use std::path::PathBuf;

use portolan_config::{ConfiguredMode, Given, Read, Span, from_file};

fn files() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/kubeadm");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    files.sort();
    let name = |file: &PathBuf| file.file_name().expect("a file has a name").to_string_lossy().into_owned();
    files.iter().map(|file| (name(file), std::fs::read_to_string(file).expect("the file can be read"))).collect()
}

fn read(name: &str, text: &str) -> Read {
    let given = Given::new(&[("config", "/var/lib/kube-proxy/config.conf"), ("hostname-override", "Node-1")])
        .expect("the flags are good");
    from_file(name, text, &given).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

#[test]
fn every_release_is_read_without_a_word() {
    let files = files();
    assert_eq!(files.len(), 8);
    for (name, text) in files {
        assert_eq!(read(&name, &text).notices, [], "{name}");
    }
}

#[test]
fn every_release_means_the_defaults() {
    for (name, text) in files() {
        let document = read(&name, &text).document;
        assert_eq!(document.text("clientConnection.kubeconfig"), "/var/lib/kube-proxy/kubeconfig.conf", "{name}");
        assert_eq!(document.text("hostnameOverride"), "node-1", "{name}");
        assert_eq!(document.text("healthzBindAddress"), "0.0.0.0:10256", "{name}");
        assert_eq!(document.text("detectLocalMode"), "ClusterCIDR", "{name}");
        assert_eq!(document.text("clusterCIDR"), "10.244.0.0/16", "{name}");
        assert_eq!(document.integer("conntrack.maxPerCore"), 32768, "{name}");
        assert_eq!(document.integer("oomScoreAdj"), -999, "{name}");
        assert_eq!(document.span("iptables.syncPeriod"), Span(30_000_000_000), "{name}");
        assert!(!document.is_given("iptables.minSyncPeriod"), "{name}: kubeadm's 0s is not a wish");
        let mode = if name == "1.37.conf" { ConfiguredMode::Iptables } else { ConfiguredMode::Unset };
        assert_eq!(document.mode(), mode, "{name}");
    }
}
