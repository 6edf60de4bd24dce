//! What HNS refuses, and what it cannot do.

use serde_json::json;

use super::machine::{Machine, OBJECTS};
use super::process::finish;

const NAME: &str = "kubeproxy_sync_proxy_rules_winkernel_lb";
const UNSPECIFIED: u32 = 0x8000_4005;
const INVALID_ADDRESS: u32 = 0x803b_001e;

/// The failures of one kind of call, as lines without the common beginning.
fn failures(machine: &Machine, call: &str) -> Vec<String> {
    let start = format!("{NAME}_{call}_failures_total{{");
    let (_, page) = machine.get(10249, "/metrics");
    page.lines().filter_map(|line| line.strip_prefix(&*start)).map(str::to_owned).collect()
}

fn until(machine: &Machine, call: &str, expected: &[&str]) {
    machine.until_so(|| failures(machine, call) == expected, || format!("{call}: {:?}", failures(machine, call)));
}

#[test]
fn refused_calls_for_load_balancers_are_counted_as_in_kube_proxy() {
    let machine = Machine::new();
    let refuse = |call: &str, code: u32, times: u32| json!([{"call": call, "code": code, "times": times}]);
    machine.with("refusals", refuse("HcnCreateLoadBalancer", INVALID_ADDRESS, 2));
    let _daemon = machine.start();
    machine.until_so(|| machine.balancers().len() == 2, || format!("{:?}", machine.balancers()));
    let of_both = |error: &str| {
        ["clusterip", "nodeport"].map(|kind| format!("error=\"{error}\",ip_family=\"IPv4\",lb_type=\"{kind}\"}} 1"))
    };
    until(&machine, "create", &of_both("invalid_ip").each_ref().map(|it| &**it));
    assert!(failures(&machine, "update").is_empty() && failures(&machine, "delete").is_empty());
    let (_, page) = machine.get(10249, "/metrics");
    let help = format!("# HELP {NAME}_create_failures_total [ALPHA] Cumulative proxy winkernel lb create failures");
    assert!(page.contains(&help), "{page}");

    machine.change(&json!({"refusals": refuse("HcnModifyLoadBalancer", UNSPECIFIED, 2)}));
    machine.write_objects(&OBJECTS.replace("- {addresses: [10.244.2.3], nodeName: node-b}\n", ""));
    until(&machine, "update", &of_both("other").each_ref().map(|it| &**it));

    machine.change(&json!({"refusals": refuse("HcnDeleteLoadBalancer", UNSPECIFIED, 2)}));
    machine.write_objects(OBJECTS.split("---\n").next().expect("the Node"));
    until(&machine, "delete", &of_both("other").each_ref().map(|it| &**it));
    machine.until(&[]);
}

/// The first HNS that can be used, and what it lacks: the Service is served without it.
#[test]
fn an_old_hns_does_what_it_can() {
    let machine = Machine::new();
    machine.with("version", json!([9, 2]));
    let local = "  externalTrafficPolicy: Local\n  sessionAffinity: ClientIP\n  type: NodePort\n";
    machine.write_objects(&OBJECTS.replace("  type: NodePort\n", local));
    let _daemon = machine.start();
    machine.until(&["10.96.0.10:80 -> 10.244.1.2 10.244.2.2 10.244.2.3", "*:30080 -> 10.244.1.2"]);
    let warnings = ["direct server return", "session affinity", "dual stack"];
    for what in warnings {
        assert!(machine.log().contains(&format!("HNS 9.2 does not have {what}")), "{what}: {}", machine.log());
    }
    let state = machine.state();
    for balancer in state["balancers"].as_array().expect("a list") {
        let mapping = &balancer["PortMappings"][0];
        assert!(balancer.get("Flags").is_none() && mapping.get("DistributionType").is_none(), "{balancer}");
    }
    let answer = || machine.ask_daemon(&["verify"]);
    machine.until_so(|| answer().status.success(), || format!("{:?}", answer()));
}

#[test]
fn direct_server_return_that_hns_does_not_have_is_refused() {
    let machine = Machine::new();
    machine.with("version", json!([10, 0]));
    let output = finish(machine.proxy(&["--enable-dsr", "--manifests", &machine.manifests()])).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("set winkernel.enableDSR to false"), "{errors}");
}
