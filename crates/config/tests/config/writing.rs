//! `--write-config-to`: the files in `tests/written` were written by kube-proxy 1.37.1 from the same input.

use portolan_config::{Given, from_file, from_flags};

/// Left blank, the mode stays blank here, so that the file means the same when it is read again.
fn with_blank_mode(expected: &str) -> String {
    expected.replace("mode: iptables\n", "mode: \"\"\n")
}

#[test]
fn flags_are_written_as_kube_proxy_writes_them() {
    let none = from_flags(&Given::default()).unwrap();
    assert_eq!(none.document.to_yaml(), with_blank_mode(include_str!("../written/no-flags.yaml")));
    let nftables = Given::new(&[("proxy-mode", "nftables"), ("masquerade-all", "true")]).unwrap();
    assert_eq!(from_flags(&nftables).unwrap().document.to_yaml(), include_str!("../written/nftables-flags.yaml"));
    let ipvs = Given::new(&[
        ("proxy-mode", "ipvs"),
        ("masquerade-all", "true"),
        ("cluster-cidr", "10.0.0.0/8,fd00::/64"),
        ("nodeport-addresses", "primary"),
        ("feature-gates", "AllowServiceExternalIPs=false"),
        ("iptables-sync-period", "5s"),
        ("ipvs-sync-period", "7s"),
    ])
    .unwrap();
    assert_eq!(from_flags(&ipvs).unwrap().document.to_yaml(), include_str!("../written/ipvs-flags.yaml"));
}

#[test]
fn files_are_written_as_kube_proxy_writes_them() {
    let name = Given::new(&[("hostname-override", "Node-1")]).unwrap();
    let written = |text: &str, given: &Given| from_file("f", text, given).unwrap().document.to_yaml();
    let expected = with_blank_mode(include_str!("../written/kubeadm-1.24.yaml"));
    assert_eq!(written(include_str!("../kubeadm/1.24.conf"), &name), expected);
    let expected = include_str!("../written/kubeadm-1.37.yaml");
    assert_eq!(written(include_str!("../kubeadm/1.37.conf"), &name), expected);
    let flags = Given::new(&[("v", "1"), ("vmodule", "b=3"), ("masquerade-all", "true")]).unwrap();
    let expected = include_str!("../written/nftables-file.yaml");
    assert_eq!(written(include_str!("../files/nftables.yaml"), &flags), expected);
}

#[test]
fn what_was_written_reads_as_what_wrote_it() {
    for text in [
        include_str!("../files/nftables.yaml"),
        include_str!("../kubeadm/1.24.conf"),
        include_str!("../kubeadm/1.37.conf"),
    ] {
        let first = from_file("f", text, &Given::default()).unwrap().document.to_yaml();
        let again = from_file("f", &first, &Given::default()).unwrap().document.to_yaml();
        assert_eq!(again, first);
    }
}
