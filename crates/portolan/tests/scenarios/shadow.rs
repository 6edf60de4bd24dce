//! Shadow mode against the recorded rules of the real kube-proxy: the same objects lead to the same behaviour, and
//! every injected mistake is found.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use portolan_plan::Plan;
use portolan_shadow::{PeerRules, Report, compare, read_peer};
use portolan_testkit::Scenario;

use crate::support::Session;

/// The API server creates this Service itself.
const KUBERNETES: &str = "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: default}\n\
    spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}\n";

fn recording(scenario: &str, mode: &str) -> Option<String> {
    let folder: PathBuf = crate::support::folder().join("../crates/shadow/tests/recorded");
    std::fs::read_to_string(folder.join(format!("{scenario}.{mode}.txt"))).ok()
}

fn planned(scenario: &Scenario) -> Plan {
    let objects = &scenario.steps.last().expect("a scenario has a step").objects;
    Session::new(scenario).step(&scenario.name, &format!("{objects}{KUBERNETES}")).clone()
}

fn from_iptables(text: &str) -> PeerRules {
    let (ipv4, ipv6) = text.split_once("# ip6tables-save").expect("both families are recorded");
    PeerRules::from_iptables(ipv4, ipv6)
}

/// Loads the rules in a new network namespace, and reads them as the daemon would.
fn from_nftables(text: &str) -> PeerRules {
    portolan_kernel::namespace::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let mut nft = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().expect("nft runs");
    let mut stdin = nft.stdin.take().expect("it has a standard input");
    std::io::Write::write_all(&mut stdin, text.as_bytes()).expect("nft reads");
    drop(stdin);
    assert!(nft.wait().expect("nft ends").success(), "nft accepts its own output");
    read_peer().expect("the rules can be read")
}

fn peer(scenario: &str, mode: &str) -> Option<PeerRules> {
    let text = recording(scenario, mode)?;
    Some(if mode == "iptables" { from_iptables(&text) } else { from_nftables(&text) })
}

fn agrees(scenario: &Scenario, mode: &str) -> Result<(), String> {
    let Some(peer) = peer(&scenario.name, mode) else {
        return Ok(());
    };
    let comparison = compare(&planned(scenario), &peer);
    let report = Report::from(&comparison);
    if comparison.probes == 0 {
        return Err("nothing was compared".into());
    }
    if report.agrees() { Ok(()) } else { Err(report.to_string()) }
}

/// The number of recordings in each mode, so that the loss of one fails.
const RECORDINGS: usize = 157;

#[test]
fn there_are_recordings() {
    for mode in ["iptables", "nftables"] {
        let count = crate::support::scenarios().iter().filter(|it| recording(&it.name, mode).is_some()).count();
        assert!(count == RECORDINGS || std::env::var_os("SCENARIO").is_some(), "{count} recordings in {mode} mode");
    }
}

#[test]
fn kube_proxy_in_iptables_mode_behaves_as_planned() {
    crate::support::for_each_scenario(2, |scenario| agrees(scenario, "iptables"));
}

#[test]
fn kube_proxy_in_nftables_mode_behaves_as_planned() {
    crate::support::for_each_scenario(2, |scenario| agrees(scenario, "nftables"));
}

/// Something wrong in kube-proxy's rules.
enum Mistake {
    /// Lines with this text are gone.
    Without(&'static str),
    Instead(&'static str, &'static str),
}

impl Mistake {
    fn make(&self, text: &str) -> String {
        let wrong = match self {
            Self::Without(words) => {
                text.lines().filter(|line| !line.contains(words)).map(|it| format!("{it}\n")).collect()
            }
            Self::Instead(from, to) => text.replace(from, to),
        };
        assert_ne!(wrong, text, "the mistake changes nothing");
        wrong
    }
}

/// The scenario, the mistake, and the expected words of the report.
type Case = (&'static str, Mistake, &'static str);

fn is_found(mode: &str, (name, mistake, words): &Case) {
    let scenario = Scenario::load(crate::support::folder().join(format!("{name}.txt"))).expect("the scenario is there");
    let text = mistake.make(&recording(name, mode).expect("the recording is there"));
    let peer = if mode == "iptables" { from_iptables(&text) } else { from_nftables(&text) };
    let report = Report::from(&compare(&planned(&scenario), &peer));
    let is_reported = report.unexpected.iter().any(|line| line.what.contains(words));
    assert!(is_reported, "{mode}, {name}: {words:?} is not in\n{report}");
}

#[test]
fn mistakes_in_iptables_rules_are_found() {
    use Mistake::{Instead, Without};
    let cases: [Case; 11] = [
        ("cluster-ip", Without("-> 10.244.2.3:8080"), "endpoints: only Portolan: 10.244.2.3:8080"),
        ("cluster-ip", Instead("10.244.2.3:8080", "10.244.2.4:8080"), "only kube-proxy: 10.244.2.4:8080"),
        ("cluster-ip", Instead("0.33333333349", "0.25000000000"), "how often each endpoint is chosen"),
        ("cluster-ip", Without("-A KUBE-MARK-MASQ"), "masquerade"),
        ("cluster-ip", Without("-j MASQUERADE"), "masquerade"),
        ("cluster-ip-hairpin", Without("-s 10.244.1.2/32"), "masquerade"),
        ("cluster-ip", Without("-A KUBE-SERVICES -d 10.96.0.10/32"), "kube-proxy does not serve this address"),
        ("cluster-ip", Instead("10.96.0.10/32 -p", "10.96.0.11/32 -p"), "Portolan refuses"),
        ("session-affinity", Instead("--seconds 10800", "--seconds 60"), "session affinity"),
        ("source-ranges", Instead("192.0.2.0/28", "192.0.2.0/24"), "Portolan refuses"),
        ("external-policy-local", Without("route LOCAL traffic"), "endpoints: only Portolan"),
    ];
    cases.iter().for_each(|case| is_found("iptables", case));
}

#[test]
fn mistakes_in_nftables_rules_are_found() {
    use Mistake::{Instead, Without};
    let cases: [Case; 10] = [
        ("cluster-ip", Instead("2 : 10.244.2.3 .", "2 : 10.244.2.2 ."), "endpoints: only Portolan: 10.244.2.3:8080"),
        ("cluster-ip", Instead("2 : 10.244.2.3 .", "2 : 10.244.2.4 ."), "only kube-proxy: 10.244.2.4:8080"),
        (
            "cluster-ip",
            Instead("mod 3 map {", "mod 4 map { 3 : 10.244.1.2 . 8080,"),
            "how often each endpoint is chosen",
        ),
        ("cluster-ip", Without("masquerade clusterIP traffic"), "masquerade"),
        ("cluster-ip", Without("meta mark ^"), "masquerade"),
        ("cluster-ip-hairpin", Without("10.244.1.2 . 10.244.1.2 . tcp"), "masquerade"),
        ("cluster-ip", Instead("{ 10.96.0.10 . tcp . 80", "{ 10.96.0.11 . tcp . 80"), "Portolan refuses"),
        ("session-affinity", Instead("timeout 3h", "timeout 1m"), "session affinity"),
        ("source-ranges", Instead("192.0.2.0/28", "192.0.2.0/25"), "Portolan refuses"),
        ("external-policy-local", Without("short-circuit local traffic"), "endpoints: only Portolan"),
    ];
    for case in &cases {
        // Each in a new namespace.
        std::thread::scope(|scope| scope.spawn(|| is_found("nftables", case)).join()).expect("the mistake is found");
    }
}

#[test]
fn a_service_that_only_kube_proxy_has_is_found() {
    let scenario = Scenario::load(crate::support::folder().join("cluster-ip.txt")).expect("the scenario is there");
    let plan = Session::new(&scenario).step("nothing", KUBERNETES.trim_start_matches("\n---\n")).clone();
    let report = Report::from(&compare(&plan, &peer("cluster-ip", "iptables").expect("the recording is there")));
    let stale = report.unexpected.iter().filter(|line| line.service == "default/web:http");
    assert_eq!(stale.count(), 3, "{report}");
}
