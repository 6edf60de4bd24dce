//! Command lines that are used in practice, and the syntax of the command line.

use std::process::{Command, Output};

use portolan::settings::{Facts, Settings};
use portolan_config::ConfiguredMode;
use portolan_dataplane::modes;
use portolan_plan::{AddressSelector, DetectLocal};

use super::effects::{settings as read, shown};

fn settings(line: &str) -> Settings {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    read(&arguments).unwrap_or_else(|error| panic!("{line}: {error:#}"))
}

fn mistake(line: &str) -> String {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    format!("{:#}", read(&arguments).expect_err(line))
}

fn kubeadm(release: &str) -> String {
    format!("{}/../config/tests/kubeadm/{release}.conf", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_daemon_set_of_kubeadm_works_unchanged() {
    for release in ["1.24", "1.26", "1.28", "1.30", "1.32", "1.34", "1.36", "1.37"] {
        let it = settings(&format!("--config={} --hostname-override=Worker-1", kubeadm(release)));
        let Facts::Cluster(cluster) = &it.facts else { panic!("{release}: {:?}", it.facts) };
        assert_eq!(cluster.kubeconfig.as_deref(), Some("/var/lib/kube-proxy/kubeconfig.conf".as_ref()), "{release}");
        assert_eq!((cluster.node_name.as_str(), cluster.qps, cluster.burst), ("worker-1", 5.0, 10), "{release}");
        assert_eq!(
            it.traffic.plan.node_port_addresses,
            [AddressSelector::All],
            "{release}: none is closed by taking over"
        );
        assert!(
            matches!(&it.traffic.plan.detect_local, DetectLocal::ClusterRange(ranges) if ranges.len() == 1),
            "{release}"
        );
        assert_eq!(
            (it.sync_period.as_secs(), it.traffic.mode_settings.masquerade_bit, it.oom_score_adj),
            (30, 14, -999),
            "{release}"
        );
        let notices: Vec<&str> = it.notices.iter().map(|notice| notice.text.split(':').next().unwrap()).collect();
        let is_iptables = it.traffic.configured_mode == ConfiguredMode::Iptables;
        assert_eq!(it.min_sync_period.as_secs(), u64::from(is_iptables), "{release}");
        assert_eq!(notices[0] == "no mode is configured", !is_iptables, "{release}");
        assert!(notices.last().unwrap().starts_with("nodePortAddresses is empty"), "{release}: {notices:?}");
    }
}

#[test]
fn flags_alone_work_as_in_small_distributions() {
    let it = settings(
        "--cluster-cidr=10.42.0.0/16 --conntrack-max-per-core=0 --conntrack-tcp-timeout-close-wait=0s \
         --conntrack-tcp-timeout-established=0s --healthz-bind-address=127.0.0.1 --hostname-override=server-0 \
         --kubeconfig=/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig --proxy-mode=iptables",
    );
    assert_eq!(it.healthz, Some("127.0.0.1:10256".parse().unwrap()));
    assert_eq!(
        (it.conntrack.max_per_core, it.conntrack.tcp_established, it.conntrack.tcp_close_wait),
        (None, None, None)
    );
    assert_eq!((it.traffic.mode.name(), it.min_sync_period.as_secs()), ("iptables", 1));
    let it = settings(
        "--master=http://192.168.49.2:8080 --kubeconfig= --v=2 --logtostderr=true --alsologtostderr \
         --cluster_cidr 10.244.0.0/16,fd00:10:244::/56 --feature_gates=AllAlpha=false,LoadBalancerIPMode=true",
    );
    let Facts::Cluster(cluster) = &it.facts else { panic!("{:?}", it.facts) };
    assert_eq!((cluster.master.as_deref(), &cluster.kubeconfig), (Some("http://192.168.49.2:8080"), &None));
    assert_eq!(it.log.verbosity, 2);
    assert!(matches!(&it.traffic.plan.detect_local, DetectLocal::ClusterRange(ranges) if ranges.len() == 2));
}

/// The settings as every mode reads them.
fn described(line: &str) -> String {
    let settings = settings(line).traffic.mode_settings;
    modes::ALL.iter().map(|mode| mode.describe(&settings) + "\n").collect()
}

#[test]
fn modes_read_lenient_ranges_and_a_zero() {
    let text = described("--proxy-mode=ipvs --ipvs-exclude-cidrs=010.1.2.3/8,192.0.2.0/24");
    assert!(text.contains("[10.0.0.0/8, 192.0.2.0/24]"), "{text}");
    assert!(described("--udp-timeout=0s").contains("udp_idle: 0ns"), "{}", described("--udp-timeout=0s"));
    assert!(described("").contains("udp_idle: 250ms"), "{}", described(""));
}

#[test]
fn values_are_written_in_every_way_that_kube_proxy_takes() {
    for line in ["-v=4", "-v 4", "--v=4", "--v 4", "-v=1 -v=4", "-v4"] {
        assert_eq!(settings(line).log.verbosity, 4, "{line}");
    }
    for (line, value) in [
        ("--masquerade-all", true),
        ("--masquerade_all=t", true),
        ("--masquerade-all=TRUE", true),
        ("--masquerade-all --masquerade-all=0", false),
        ("--masquerade-all=F", false),
    ] {
        assert_eq!(settings(line).traffic.plan.masquerade_all, value, "{line}");
    }
    let both = settings("--nodeport-addresses=10.0.0.0/8,primary --nodeport-addresses 192.168.0.0/16");
    assert_eq!(both.traffic.plan.node_port_addresses.len(), 3);
    assert_eq!(settings("--oom-score-adj -5").oom_score_adj, -5);
    assert_eq!(settings("--cluster-cidr=010.1.2.3/8").traffic.plan, settings("--cluster-cidr 10.0.0.0/8").traffic.plan);
}

#[test]
fn mistakes_name_the_flag_and_what_to_write() {
    for (line, words) in [
        (
            "--proxy-mode=bogus",
            "--proxy-mode: \"bogus\" is not a mode: must be nftables, iptables, ipvs, ebpf, userspace or blank",
        ),
        ("--masquerade-all=maybe", "write true or false"),
        ("--masquerade-all true", "unexpected argument 'true'"),
        ("positional", "unexpected argument 'positional'"),
        ("--no-such-flag", "unexpected argument '--no-such-flag'"),
        ("--cluster-cdir=x", "'--cluster-cidr'"),
        ("--feature-gates=A", "write A=true"),
        ("--iptables-sync-period=5", "write for example 30s"),
        ("--iptables-sync-period=1s --iptables-min-sync-period=2s", "--iptables-min-sync-period: 2s is longer"),
        ("--config=/does/not/exist", "reading the configuration file /does/not/exist"),
        ("--config=/dev/zero", "larger than 1048576 bytes"),
    ] {
        assert!(mistake(line).contains(words), "{line}: {}", mistake(line));
    }
    assert!(read(&["--hostname-override=  ".into()]).is_err());
}

#[test]
fn node_ports_are_served_where_the_configured_mode_serves_them() {
    for (line, expected) in [
        ("", AddressSelector::All),
        ("--proxy-mode=iptables", AddressSelector::All),
        ("--proxy-mode=ipvs", AddressSelector::All),
        ("--proxy-mode=nftables", AddressSelector::Primary),
        ("--manifests=/x", AddressSelector::Primary),
        ("--manifests=/x --proxy-mode=iptables", AddressSelector::All),
        ("--nodeport-addresses=localhost", AddressSelector::Localhost),
    ] {
        assert_eq!(settings(line).traffic.plan.node_port_addresses, [expected], "{line}");
    }
}

#[test]
fn our_own_flags_apply_beside_a_file_too() {
    let config = kubeadm("1.37");
    let it = settings(&format!(
        "--config={config} --manifests /x --shadow --control-socket /s --state-directory /d --masquerade-bit 7 \
         --sync-period 9s --min-sync-period 3s --service-cluster-ip-range 10.9.0.0/16 --service-node-port-range 1-2"
    ));
    let Facts::Manifests(options) = &it.facts else { panic!("{:?}", it.facts) };
    assert_eq!((options.paths.len(), options.service_ranges[0].to_string().as_str()), (1, "10.9.0.0/16"));
    assert_eq!((it.shadow, it.traffic.mode_settings.masquerade_bit), (true, 7));
    assert_eq!((it.sync_period.as_secs(), it.min_sync_period.as_secs()), (9, 3));
    assert_eq!(it.control_socket, std::path::Path::new("/s"));
}

#[test]
fn a_file_is_read_again_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.conf");
    let text = std::fs::read_to_string(kubeadm("1.37")).unwrap();
    std::fs::write(&file, &text).unwrap();
    let first = settings(&format!("--config={}", file.display()));
    std::fs::write(&file, text.replace("oomScoreAdj: null", "oomScoreAdj: 7")).unwrap();
    assert_eq!(first.read_again().unwrap().oom_score_adj, 7);
    std::fs::write(&file, "kind: Other\n").unwrap();
    let error = first.read_again().expect_err("it is broken").to_string();
    assert!(error.contains("config.conf:1: kind"), "{error}");
    assert!(shown(&first).contains("oom_score_adj: -999"));
}

/// The program itself, under the name of kube-proxy.
fn kube_proxy(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let link = folder.path().join("kube-proxy");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_portolan"), &link).expect("a link can be made");
    Command::new(link).args(arguments).output().expect("the program can be run")
}

#[test]
fn under_the_name_of_kube_proxy_it_is_kube_proxy() {
    let version = kube_proxy(&["--version"]);
    let expected = format!("Kubernetes v1.37.1 (portolan {})\n", env!("CARGO_PKG_VERSION"));
    assert_eq!((version.status.code(), String::from_utf8_lossy(&version.stdout)), (Some(0), expected.into()));
    assert!(String::from_utf8_lossy(&kube_proxy(&["--version=raw"]).stdout).contains("GitVersion:\"v1.37.1\""));
    assert_eq!(kube_proxy(&["--no-such-flag"]).status.code(), Some(1));
    assert_eq!(kube_proxy(&["--proxy-mode=bogus"]).status.code(), Some(1));
    let help = kube_proxy(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Usage: kube-proxy"));
}

#[test]
fn the_configuration_is_written_out_and_nothing_else_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.yaml");
    let to = format!("--write-config-to={}", path.display());
    let output = kube_proxy(&["--logging-format=json", "--proxy_mode=nftables", &to]);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{log}");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("each line is JSON");
        assert!(line["ts"].is_number() && line["caller"].is_string() && line["msg"].is_string(), "{line}");
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(written.contains("\nmode: nftables\n") && written.contains("\n- primary\n"), "{written}");
}
