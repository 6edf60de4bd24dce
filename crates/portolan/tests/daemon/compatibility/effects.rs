//! The effect of each field and flag on the settings of the daemon.

use clap::Parser;
use portolan::flags::KubeProxyCli;
use portolan::settings::Settings;
use portolan_config::{FIELDS, FLAGS, Field, Flag, Target, Use, Value};
use portolan_dataplane::modes;

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

/// The text that the sample value of the table entry adds to the settings.
#[rustfmt::skip]
const EFFECTS: [(&str, &str); 58] = [
    ("balancing.algorithm", "algorithm: Some(Maglev)"),
    ("balancing.hash", "hash: Some(ClientAndPort)"),
    ("balancing.maglevTableSize", "table_size: Some(TableSize(251))"),
    ("balancing.slowStart", "slow_start: Some(30s)"),
    ("balancing.quarantine", "quarantine: Some(true)"),
    ("balancing.connectionsOfRemovedEndpoints", "removed_connections: Some(Reset(0ns))"),
    ("balancing.rebalance", "rebalance: Some(Idle(30s))"),
    ("featureGates", "allow_external_ips: false"),
    ("clientConnection.kubeconfig", "kubeconfig: Some(\"/etc/kube.conf\")"),
    ("clientConnection.contentType", "content_type_json: true"),
    ("clientConnection.qps", "qps: 7.5"),
    ("clientConnection.burst", "burst: 20"),
    ("logging.format", "format: Json"),
    ("logging.verbosity", "verbosity: 4"),
    ("logging.vmodule", "patterns: [(\"daemon\", 4)]"),
    ("hostnameOverride", "node_name: \"node-x\""),
    ("bindAddress", "bind_address: Some(192.0.2.1)"),
    ("healthzBindAddress", "healthz: Some(192.0.2.1:1256)"),
    ("metricsBindAddress", "metrics: Some(0.0.0.0:1249)"),
    ("bindAddressHardFail", "bind_hard_fail: true"),
    ("enableProfiling", "profiling: true"),
    ("windowsRunAsService", "runs_as_service: true"),
    ("mode", "configured: Nftables"),
    ("iptables.masqueradeBit", "masquerade_bit: 5"),
    ("iptables.masqueradeAll", "masquerade_all: true"),
    ("iptables.localhostNodePorts", "loopback_node_ports: false"),
    ("iptables.syncPeriod", "sync_period: 20s"),
    ("iptables.minSyncPeriod", "min_sync: 2s"),
    ("ipvs.syncPeriod", "sync_period: 20s"),
    ("ipvs.minSyncPeriod", "min_sync: 2s"),
    ("ipvs.scheduler", "scheduler: \"wrr\""),
    ("ipvs.excludeCIDRs", "excluded: [192.0.2.0/24]"),
    ("ipvs.strictARP", "strict_arp: true"),
    ("ipvs.tcpTimeout", "tcp: 300"),
    ("ipvs.tcpFinTimeout", "tcp_fin: 300"),
    ("ipvs.udpTimeout", "udp: 300"),
    ("nftables.masqueradeBit", "masquerade_bit: 6"),
    ("nftables.masqueradeAll", "masquerade_all: true"),
    ("nftables.syncPeriod", "sync_period: 20s"),
    ("nftables.minSyncPeriod", "min_sync: 2s"),
    ("winkernel.networkName", "network: \"net\""),
    ("winkernel.sourceVip", "source_vip: 192.0.2.9"),
    ("winkernel.enableDSR", "direct_return: true"),
    ("winkernel.rootHnsEndpointName", "root_endpoint: \"cbr1\""),
    ("winkernel.forwardHealthCheckVip", "forwarded_health_port: 10256"),
    ("detectLocalMode", "detect_local: NodeRange"),
    ("detectLocal.bridgeInterface", "BridgeInterface(\"cbr0\")"),
    ("detectLocal.interfaceNamePrefix", "InterfacePrefix(\"veth\")"),
    ("clusterCIDR", "ClusterRange([10.244.0.0/16])"),
    ("nodePortAddresses", "[Range(192.0.2.0/24)]"),
    ("oomScoreAdj", "oom_score_adj: -500"),
    ("conntrack.maxPerCore", "max_per_core: Some(1000)"),
    ("conntrack.min", "min: 2000"),
    ("conntrack.tcpEstablishedTimeout", "tcp_established: Some(7200s)"),
    ("conntrack.tcpCloseWaitTimeout", "tcp_close_wait: Some(7200s)"),
    ("conntrack.tcpBeLiberal", "be_liberal: true"),
    ("conntrack.udpTimeout", "udp: Some(30s)"),
    ("conntrack.udpStreamTimeout", "udp_stream: Some(180s)"),
];

/// The same for flags without a field.
const ALONE: [(&str, &str); 9] = [
    ("cleanup", "cleanup: true"),
    ("config", "config_file: Some"),
    ("init-only", "init_only: true"),
    ("master", "master: Some(\"https://192.0.2.1\")"),
    ("write-config-to", "write_config_to: Some"),
    ("healthz-port", "healthz: Some(0.0.0.0:1256)"),
    ("metrics-port", "metrics: Some(127.0.0.1:1249)"),
    ("udp-timeout", "udp_idle: 5s"),
    ("version", "Kubernetes v"),
];

/// Other settings that a field needs to take effect.
fn context(path: &str) -> &'static [(&'static str, &'static str)] {
    match path {
        "detectLocal.bridgeInterface" => &[("detectLocalMode", "BridgeInterface")],
        "detectLocal.interfaceNamePrefix" => &[("detectLocalMode", "InterfaceNamePrefix")],
        _ if path.starts_with("nftables.") => &[("mode", "nftables")],
        _ if path.starts_with("ipvs.") => &[("mode", "ipvs")],
        _ => &[],
    }
}

pub(crate) fn settings(arguments: &[String]) -> anyhow::Result<Settings> {
    let arguments = std::iter::once("kube-proxy").chain(arguments.iter().map(String::as_str));
    let arguments = portolan_config::normalised(arguments.map(Into::into));
    Settings::read(&KubeProxyCli::try_parse_from(arguments)?.flags)
}

/// All settings of the daemon, with those of every mode as the mode reads them.
pub(crate) fn shown(it: &Settings) -> String {
    let traffic = &it.traffic;
    let modes: Vec<String> = modes::ALL.iter().map(|mode| mode.describe(&traffic.mode_settings)).collect();
    format!(
        "{:?} {:?} configured: {:?} {:?} masquerade_bit: {} min_sync: {:?} sync_period: {:?} {:?} oom_score_adj: {} \
         bind_address: {:?} healthz: {:?} metrics: {:?} bind_hard_fail: {} profiling: {} runs_as_service: {} shadow: {} {} \
         {:?} {:?} config_file: {:?} {:?}",
        it.facts,
        traffic.plan,
        traffic.configured_mode,
        traffic.mode,
        traffic.mode_settings.masquerade_bit,
        it.min_sync_period,
        it.sync_period,
        it.conntrack,
        it.oom_score_adj,
        it.bind_address,
        it.healthz,
        it.metrics,
        it.bind_hard_fail,
        it.profiling,
        it.runs_as_service,
        it.shadow,
        modes.join(" "),
        it.actions,
        it.control_socket,
        it.config_file,
        it.log,
    )
}

/// A configuration file with these fields, and the settings that it leads to.
fn by_file(fields: &[(&str, &str)]) -> Settings {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("config.conf");
    std::fs::write(&path, file_of(fields)).expect("a file can be written");
    settings(&[format!("--config={}", path.display())]).unwrap_or_else(|error| panic!("{fields:?}: {error:#}"))
}

fn file_of(fields: &[(&str, &str)]) -> String {
    let mut root = serde_json::json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
    });
    for (path, value) in fields {
        let field = Field::named(path).expect("the path is in the table");
        let place = path.split('.').fold(&mut root, |place, step| &mut place[step]);
        *place = Value::parse(field.kind, value).expect("the sample is of its kind").to_json();
    }
    root.to_string()
}

/// Without the name of the temporary file, which differs from one to the next.
fn effect_of_file(fields: &[(&str, &str)]) -> String {
    let settings = by_file(fields);
    shown(&settings).replace(&format!("{:?}", settings.config_file), "")
}

#[test]
fn every_field_has_its_effect_or_a_warning() {
    for field in FIELDS {
        let before = context(field.path);
        let after: Vec<(&str, &str)> = before.iter().copied().chain([(field.path, field.sample)]).collect();
        let after_text = effect_of_file(&after);
        match field.used {
            Use::Works(_) => {
                let found = EFFECTS.iter().find(|(path, _)| *path == field.path);
                let (_, effect) = found.unwrap_or_else(|| panic!("{} is not in the table of effects", field.path));
                assert!(after_text.contains(effect), "{}: no {effect:?} in {after_text}", field.path);
                if !before.iter().any(|(path, _)| *path == "detectLocalMode") {
                    assert!(!effect_of_file(before).contains(effect), "{}: {effect:?} is always there", field.path);
                }
            }
            Use::None(reason) => {
                assert_eq!(after_text, effect_of_file(before), "{}", field.path);
                let notices = by_file(&after).notices;
                let is_told = notices.iter().any(|it| it.text.contains(field.path) && it.text.contains(reason));
                assert!(is_told, "{}: {notices:?}", field.path);
            }
        }
    }
}

#[test]
fn every_field_is_in_the_written_configuration() {
    for field in FIELDS.iter().filter(|field| field.path != "portRange") {
        let fields: Vec<_> = context(field.path).iter().copied().chain([(field.path, field.sample)]).collect();
        let document = by_file(&fields).document;
        let written = field.path.split('.').fold(&document, |place, step| &place[step]);
        assert_eq!(*written, Value::parse(field.kind, field.sample).unwrap().to_json(), "{}", field.path);
    }
}

fn flag_context(flag: &Flag) -> Vec<String> {
    let fields = flag.field().map_or(&[][..], |field| context(field.path));
    let flag_of = |path: &str| {
        FLAGS.iter().find(|it| it.field().is_some_and(|field| field.path == path)).expect("the field has a flag")
    };
    fields.iter().map(|(path, value)| format!("--{}={value}", flag_of(path).name)).collect()
}

#[test]
fn every_flag_has_the_effect_of_its_field() {
    for flag in Flag::all() {
        let Some(field) = flag.field() else { continue };
        let mut arguments = flag_context(flag);
        let before = arguments.clone();
        arguments.push(format!("--{}={}", flag.name, flag.sample()));
        let after = settings(&arguments).unwrap_or_else(|error| panic!("--{}: {error:#}", flag.name));
        match EFFECTS.iter().find(|(path, _)| *path == field.path) {
            Some((_, effect)) => assert!(shown(&after).contains(effect), "--{}: {}", flag.name, shown(&after)),
            None => {
                assert_eq!(shown(&settings(&before).unwrap()), shown(&after), "--{}", flag.name);
                let start = format!("--{} has no effect", flag.name);
                assert!(after.notices.iter().any(|it| it.text.starts_with(&start)), "--{}", flag.name);
            }
        }
    }
}

#[test]
fn every_other_flag_has_its_own_effect_or_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.conf");
    std::fs::write(&file, HEADER).unwrap();
    for flag in Flag::all().filter(|flag| matches!(flag.target, Target::Alone { .. }) && flag.name != "version") {
        let sample = flag.sample().replace("FILE", &file.display().to_string());
        let after = settings(&[format!("--{}={sample}", flag.name)]).unwrap();
        match (flag.used(), ALONE.iter().find(|(name, _)| *name == flag.name)) {
            (Use::Works(_), Some((_, effect))) => assert!(shown(&after).contains(effect), "{}", shown(&after)),
            (Use::Works(_), None) => panic!("--{} is not in the table of effects", flag.name),
            (Use::None(reason), _) => {
                assert_eq!(shown(&after), shown(&settings(&[]).unwrap()), "--{}", flag.name);
                let text = format!("--{} has no effect: {reason}", flag.name);
                assert!(after.notices.iter().any(|it| it.text == text), "--{}: {:?}", flag.name, after.notices);
            }
        }
    }
}

#[test]
fn beside_a_file_a_flag_applies_only_if_it_overrides() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.conf");
    std::fs::write(&file, HEADER).unwrap();
    let config = format!("--config={}", file.display());
    let plain = shown(&settings(std::slice::from_ref(&config)).unwrap());
    for flag in Flag::all() {
        let Some(field) = flag.field() else { continue };
        let both = settings(&[config.clone(), format!("--{}={}", flag.name, flag.sample())]).unwrap();
        let has_effect = EFFECTS.iter().any(|(path, _)| *path == field.path);
        let counts = matches!(flag.target, Target::Override(_)) && has_effect;
        assert_eq!(shown(&both) != plain, counts, "--{}", flag.name);
        let is_told = both.notices.iter().any(|it| it.text.contains(&format!("--{}", flag.name)));
        assert_eq!(is_told, !counts, "--{}: {:?}", flag.name, both.notices);
    }
}

#[test]
fn every_flag_is_shown_with_its_value() {
    let flags = settings(&["--nodeport-addresses=primary".into(), "-v=3".into()]).unwrap().flags;
    let value = |name: &str| flags.iter().find(|(flag, _)| flag == name).map(|(_, value)| value.as_str());
    assert_eq!(value("nodeport-addresses"), Some("primary"));
    assert_eq!(value("v"), Some("3"));
    assert_eq!(value("config-sync-period"), Some("15m0s"));
    assert!(FLAGS.iter().all(|flag| value(flag.name).is_some()));
}
