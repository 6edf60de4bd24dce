//! userspace mode in a real kernel, in both variants of iptables: programmed objects read back the same, and rules lead
//! to open listeners.

use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;

use portolan_dataplane::tables::Variant;
use portolan_dataplane::userspace::{Listeners, RelayLimits, Userspace, UserspaceKernel};
use portolan_dataplane::{Reconciler, Trust, verify};
use portolan_plan::{Limits, Plan, PlanConfig, plan};

use crate::world::{configurations, everything, named};

fn sync(variant: Variant, plan: &Plan) -> Reconciler<Userspace, UserspaceKernel> {
    let listeners = Arc::new(Listeners::open(RelayLimits::default()).expect("a relay can be started"));
    let mut reconciler = Reconciler::new(Userspace, UserspaceKernel::open(variant, listeners).expect("root"));
    reconciler.sync(plan, Trust::Memory).expect("the kernel accepts it");
    assert!(verify(&Userspace, reconciler.kernel_mut(), plan).expect("the kernel can be read").is_empty());
    reconciler
}

fn save(variant: Variant) -> String {
    let output = Command::new(format!("iptables-{variant}-save")).output().expect("iptables is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

fn relayed(config: PlanConfig) -> PlanConfig {
    PlanConfig { limits: Limits { relayed: true, ..Limits::default() }, ..config }
}

#[test]
fn programmed_rules_read_back_and_lead_to_listeners() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    for variant in Variant::BOTH {
        for config in configurations() {
            let plan = plan(&everything(), &Plan::default(), &relayed(config));
            let _listening = sync(variant, &plan);
            let text = save(variant);
            let of_tcp = text.lines().filter(|line| line.contains(" -p tcp ") && line.contains("REDIRECT"));
            let ports: Vec<u16> = of_tcp.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
            assert!(ports.len() > 5, "{text}");
            assert!(ports.iter().all(|port| TcpListener::bind(("0.0.0.0", *port)).is_err()), "{text}");
        }
    }
}

/// The API server allows no such names, but an address may belong to another program.
#[test]
fn names_cannot_break_out_of_a_rule() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let hostile = [
        "a\" -j ACCEPT\nCOMMIT\n*nat\n:X - [0:0]",
        "-j REDIRECT --to-ports 22",
        "<x>",
        "a_b",
        "a b",
        "\\\"'",
        "é\u{7f}\t ",
        "",
    ];
    let long = "n".repeat(300);
    let snapshot = named(&[&hostile[..], &[&long]].concat());
    let plan = plan(&snapshot, &Plan::default(), &relayed(PlanConfig::default()));
    for variant in Variant::BOTH {
        let mut reconciler = sync(variant, &plan);
        let text = save(variant);
        assert!(text.lines().all(|line| !line.starts_with(":X ") && !line.ends_with("--to-ports 22")), "{text}");
        let listeners = reconciler.kernel_mut().listeners().sockets().unwrap().len();
        assert_eq!(listeners, 2 * 9, "each Service has its own, for TCP and UDP");
    }
}
