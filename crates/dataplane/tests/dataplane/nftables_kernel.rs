//! The mode in a real kernel: programmed objects read back the same, and `nft` lists the text that is rendered.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use portolan_dataplane::nft::{Nftables, NftablesKernel, listing};
use portolan_dataplane::{Reconciler, Trust, render, verify};
use portolan_model::{Family, Node, Service, ServiceName};
use portolan_plan::{AddressSelector, Plan, PlanConfig, plan};

use crate::poll::until;
use crate::world::{configurations, everything, everything_balanced, named, slices};

fn nft_list(family: &str) -> String {
    nft_output(&["--stateless", "list", "table", family, "portolan"])
}

fn nft_output(words: &[&str]) -> String {
    let output = Command::new("nft").args(words).output();
    let output = output.expect("nft runs (Debian package nftables)");
    assert!(output.status.success(), "nft {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("nft prints UTF-8")
}

/// The lines of a listing, sorted, because the kernel orders chains by creation and elements by hash.
fn lines(text: &str) -> Vec<String> {
    // `nft` puts several short elements on one line.
    let text = text.replace("elements = {", "").replace(" }", "").replace(", ", "\n");
    let mut lines: Vec<String> = text.lines().map(|line| line.trim().trim_end_matches(',').to_string()).collect();
    lines.retain(|line| !line.is_empty());
    lines.sort();
    lines
}

#[test]
fn programmed_objects_read_back_and_match_nft_list() {
    portolan_kernel::namespace::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let mode = Nftables::new(14);
    for config in configurations() {
        let plan = plan(&everything_balanced(), &Plan::default(), &config);
        let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
        reconciler.sync(&plan, Trust::Memory).unwrap();
        let difference = verify(&mode, reconciler.kernel_mut(), &plan).unwrap();
        assert!(difference.is_empty(), "{difference}");
        let listed = format!("{}{}", nft_list("ip"), nft_list("ip6"));
        let (ours, theirs) = (lines(&listing(&render(&mode, &plan))), lines(&listed));
        let only = |left: &[String], right: &[String]| -> Vec<String> {
            left.iter().filter(|line| !right.contains(line)).cloned().collect()
        };
        assert_eq!(only(&ours, &theirs), Vec::<String>::new(), "lines that nft does not print");
        assert_eq!(only(&theirs, &ours), Vec::<String>::new(), "lines that only nft prints");
        assert_eq!(ours, theirs);
    }
}

#[test]
fn a_second_start_writes_nothing() {
    portolan_kernel::namespace::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let plan = plan(&everything(), &Plan::default(), &PlanConfig::default());
    let sync = || {
        let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
        reconciler.sync(&plan, Trust::Memory).unwrap()
    };
    assert!(sync().objects > 0);
    let generation = |()| portolan_kernel::nftables::Nftables::open().unwrap().generation().unwrap();
    let before = generation(());
    assert_eq!(sync().objects, 0);
    assert_eq!(generation(()), before);
}

/// Another process commits continuously to its own table: our syncs succeed anyway.
#[test]
fn a_process_that_commits_continuously_does_not_block_syncs() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let plan = plan(&everything(), &Plan::default(), &PlanConfig::default());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A new thread is in the same namespace.
        scope.spawn(|| {
            let mut handle = portolan_kernel::nftables::Nftables::open().unwrap();
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let mut batch = portolan_kernel::nftables::Batch::new();
                batch.add_table(Family::V4, "neighbour");
                batch.delete_table(Family::V4, "neighbour");
                handle.commit(batch).unwrap();
            }
        });
        let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
        let outcome = reconciler.sync(&plan, Trust::Memory);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome.unwrap();
    });
    assert!(verify(&Nftables::new(14), &mut NftablesKernel::open().unwrap(), &plan).unwrap().is_empty());
}

/// A table of another layout, as another version might leave it, is replaced in one transaction, and its translated
/// connections survive.
#[test]
fn a_table_of_another_layout_is_replaced_under_a_connection() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    run("ip", "link set lo up");
    run("ip", "address add 10.244.1.2/32 dev lo");
    run("ip", "route add 10.96.0.0/16 dev lo");
    run("nft", "add table ip portolan; add chain ip portolan old");
    run("nft", "add map ip portolan services { type ipv4_addr . inet_proto . inet_service : verdict; }");
    run("nft", "add chain ip portolan nat-output { type nat hook output priority -100; }");
    run("nft", "add rule ip portolan nat-output ip daddr . meta l4proto . th dport vmap @services");
    run("nft", "add rule ip portolan old meta l4proto tcp dnat to 10.244.1.2:8080");
    run("nft", "add element ip portolan services { 10.96.7.7 . tcp . 80 : goto old }");
    let listener = std::net::TcpListener::bind("10.244.1.2:8080").unwrap();
    let mut client = std::net::TcpStream::connect("10.96.7.7:80").unwrap();
    let (mut server, _) = listener.accept().unwrap();

    let plan = plan(&everything(), &Plan::default(), &PlanConfig::default());
    let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
    reconciler.sync(&plan, Trust::Memory).unwrap();
    assert!(verify(&Nftables::new(14), reconciler.kernel_mut(), &plan).unwrap().is_empty());
    assert!(!nft_list("ip").contains("chain old"));
    let mut answer = [0; 4];
    client.write_all(b"ping").unwrap();
    server.read_exact(&mut answer).unwrap();
    server.write_all(b"pong").unwrap();
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"pong");
}

fn run(program: &str, words: &str) {
    let arguments: Vec<&str> = if program == "nft" { vec![words] } else { words.split(' ').collect() };
    let status = Command::new(program).args(arguments).status().expect("nft and ip are installed");
    assert!(status.success(), "{program} {words}");
}

/// A refused write changes nothing, its error names the refused objects, and the next sync succeeds.
#[test]
fn a_refused_change_leaves_the_table_as_it_was() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let first = plan(&everything(), &Plan::default(), &PlanConfig::default());
    let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
    reconciler.sync(&first, Trust::Memory).unwrap();
    // A foreign process deletes an element, so that our next change removes an element that does not exist.
    let script = "delete element ip portolan endpoints { 10.96.0.10 . tcp . 80 . 2 }";
    run("nft", script);
    let before = nft_list("ip");
    let mut snapshot = everything();
    let pods = [("10.244.1.2", "node-a"), ("10.244.2.2", "node-b")];
    snapshot.slices.insert(ServiceName::new("default", "plain"), Arc::new(slices("plain", Family::V4, &pods)));
    let second = plan(&snapshot, &first, &PlanConfig::default());
    let error = reconciler.sync(&second, Trust::Memory).unwrap_err();
    assert!(error.to_string().contains("endpoints"), "{error}");
    assert_eq!(nft_list("ip"), before);
    reconciler.sync(&second, Trust::Memory).unwrap();
    assert!(verify(&Nftables::new(14), reconciler.kernel_mut(), &second).unwrap().is_empty());
}

/// Interfaces come and go with every pod: that must not cost work for every Service.
#[test]
fn a_new_address_of_the_node_costs_one_element() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let range = "192.168.0.0/16".parse().unwrap();
    let config = PlanConfig { node_port_addresses: vec![AddressSelector::Range(range)], ..PlanConfig::default() };
    let mut snapshot = everything();
    let first = plan(&snapshot, &Plan::default(), &config);
    let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
    reconciler.sync(&first, Trust::Memory).unwrap();
    let interface_addresses = ["192.168.50.1", "192.168.60.1", "172.17.0.1"].map(|it| it.parse().unwrap()).into();
    snapshot.node = Arc::new(Node { interface_addresses, ..(*snapshot.node).clone() });
    let second = plan(&snapshot, &first, &config);
    let report = reconciler.sync(&second, Trust::Memory).unwrap();
    assert_eq!((report.objects, report.services, report.full), (1, 0, false));
    assert!(verify(&Nftables::new(14), reconciler.kernel_mut(), &second).unwrap().is_empty());
}

/// A table that another process owns cannot be written. The other family is served all the same, and the report names the
/// one that is not.
#[test]
fn a_family_that_fails_leaves_the_other_in_force() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let mut owner = Command::new("nft").arg("-i").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut input = owner.stdin.take().unwrap();
    input.write_all(b"add table ip6 portolan { flags owner; }\n").unwrap();
    until("the table has an owner", || nft_output(&["list", "tables"]).contains("ip6 portolan"));

    let plan = plan(&everything(), &Plan::default(), &PlanConfig::default());
    let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
    let report = reconciler.sync(&plan, Trust::Memory).unwrap();
    let failure = report.failure.expect("the table of IPv6 is not ours");
    assert!(failure.starts_with("IPv6: "), "{failure}");
    assert!(nft_list("ip").contains("10.96.0.10 . tcp . 80"));

    drop(input);
    owner.wait().unwrap();
    let report = reconciler.sync(&plan, Trust::Memory).unwrap();
    assert_eq!(report.failure, None);
    assert!(verify(&Nftables::new(14), reconciler.kernel_mut(), &plan).unwrap().is_empty());
}

/// The API server allows no such names. They are part of the names of chains and maps of session affinity.
#[test]
fn no_name_of_a_service_is_refused() {
    portolan_kernel::enter_new_network_namespace().expect("root is needed to make a network namespace");
    let long = "n".repeat(300);
    let mut snapshot = named(&["a\" }\nflush ruleset", "é\u{7f}\t ", "", "a/b", &long]);
    let names: Vec<ServiceName> = snapshot.services.keys().cloned().collect();
    for name in names {
        let sticky = Service { affinity_seconds: Some(60), ..(*snapshot.services[&name]).clone() };
        snapshot.services.insert(name, Arc::new(sticky));
    }
    let plan = plan(&snapshot, &Plan::default(), &PlanConfig::default());
    let mut reconciler = Reconciler::new(Nftables::new(14), NftablesKernel::open().unwrap());
    reconciler.sync(&plan, Trust::Memory).unwrap();
    assert!(verify(&Nftables::new(14), reconciler.kernel_mut(), &plan).unwrap().is_empty());
    assert_eq!(nft_list("ip").matches("\tmap affinity/").count(), 5 * 3);
}
