//! iptables mode in a real kernel, in both variants: programmed objects read back the same, and `iptables-save` prints
//! the text that is rendered.

use std::collections::BTreeSet;
use std::process::Command;

use portolan_dataplane::iptables::{Iptables, IptablesKernel, listing};
use portolan_dataplane::tables::Variant;
use portolan_dataplane::{Reconciler, Trust, render, verify};
use portolan_model::Snapshot;
use portolan_plan::{Plan, PlanConfig, plan};

use crate::world::{configurations, everything, named};

fn sync(variant: Variant, plan: &Plan) -> Reconciler<Iptables, IptablesKernel> {
    let mut reconciler = Reconciler::new(Iptables::new(14), IptablesKernel::open(variant).expect("root"));
    reconciler.sync(plan, Trust::Memory).expect("the kernel accepts it");
    assert!(verify(&Iptables::new(14), reconciler.kernel_mut(), plan).expect("the kernel can be read").is_empty());
    reconciler
}

fn save(family: &str, variant: Variant) -> String {
    let output = Command::new(format!("{family}-{variant}-save")).output().expect("iptables is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it prints UTF-8")
}

fn rules(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| line.starts_with("-A ")).map(str::to_owned).collect()
}

#[test]
fn programmed_rules_read_back_and_match_iptables_save() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    for variant in Variant::BOTH {
        for config in configurations() {
            let plan = plan(&everything(), &Plan::default(), &config);
            sync(variant, &plan);
            let rendered = listing(&render(&Iptables::new(14), &plan));
            let (ipv4, ipv6) = rendered.split_once("# ip6tables-save").unwrap();
            assert_eq!(rules(ipv4), rules(&save("iptables", variant)), "{variant}");
            assert_eq!(rules(ipv6), rules(&save("ip6tables", variant)), "{variant}");
        }
    }
}

/// The API server allows no such names, but an address may belong to another program.
#[test]
fn names_cannot_break_out_of_a_rule() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let hostile =
        ["a\" -j ACCEPT\nCOMMIT\n*nat\n:X - [0:0]", "$(touch /tmp/x)`id`", "\\\"'", "é\u{7f}\t ", "-j DROP", ""];
    let long = "n".repeat(300);
    let snapshot = named(&[&hostile[..], &[&long]].concat());
    let plan = plan(&snapshot, &Plan::default(), &PlanConfig::default());
    for variant in Variant::BOTH {
        sync(variant, &plan);
        let saved = save("iptables", variant);
        assert!(saved.lines().all(|line| !line.starts_with(":X ")), "{saved}");
        assert!(
            saved.lines().all(|line| !line.ends_with("-j ACCEPT") || line.starts_with("-A KUBE-FORWARD ")),
            "{saved}"
        );
        assert_eq!(saved.matches("-A KUBE-SERVICES -d 10.96.1.").count(), 7 * 3, "{saved}");
    }
}

/// A failed write is reported with the line that the program rejected, and the next sync reads the kernel first.
#[test]
fn a_write_that_a_foreign_change_breaks_is_reported_and_repaired() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let first = plan(&everything(), &Plan::default(), &PlanConfig::default());
    let mut reconciler = sync(Variant::Nft, &first);
    let flush = Command::new("iptables-nft").args(["-t", "nat", "-F", "KUBE-SERVICES"]).status().unwrap();
    assert!(flush.success());
    let second = plan(&Snapshot { node: everything().node, ..Snapshot::default() }, &first, &PlanConfig::default());
    let error = reconciler.sync(&second, Trust::Memory).unwrap_err().to_string();
    assert!(error.contains("iptables-nft-restore") && error.contains("the line is: -D KUBE-SERVICES"), "{error}");
    reconciler.sync(&second, Trust::Memory).unwrap();
    assert!(verify(&Iptables::new(14), reconciler.kernel_mut(), &second).unwrap().is_empty());
}
