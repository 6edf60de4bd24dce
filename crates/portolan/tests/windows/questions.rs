//! Commands that need no daemon.

use std::process::Command;

use super::machine::Machine;

#[test]
fn objects_are_those_of_the_program_for_linux() {
    let machine = Machine::new();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("objects.yaml"), super::machine::OBJECTS).unwrap();
    for mode in ["nftables", "kernelspace"] {
        let mode = format!("--proxy-mode={mode}");
        let mut linux = Command::new(env!("CARGO_BIN_EXE_portolan"));
        linux.arg("render").arg("--manifests").arg(folder.path()).args(["--hostname-override=node-a", &mode]);
        let expected = String::from_utf8(linux.output().unwrap().stdout).unwrap();
        assert!(!expected.is_empty());
        assert_eq!(machine.ask(&["render", &mode]).replace("\r\n", "\n"), expected);
    }
}

#[test]
fn a_packet_is_explained() {
    let machine = Machine::new();
    let answer = machine.ask(&["explain", "10.244.1.2", "10.96.0.10:80", "--proxy-mode=kernelspace"]);
    assert!(answer.contains("default/web:http") && answer.contains("10.244.2.3:8080"), "{answer}");
}

#[test]
fn a_mode_of_linux_says_so() {
    let machine = Machine::new();
    let output = machine.run(&["proxy", "--proxy-mode=nftables"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("mode nftables is for linux nodes only, and this is windows"), "{errors}");
}

#[test]
fn manifests_are_compared() {
    let machine = Machine::new();
    let manifests = machine.manifests();
    assert!(machine.ask(&["diff", "--proxy-mode=kernelspace", "--from", &manifests]).contains("no difference"));
    let other = tempfile::tempdir().unwrap();
    let fewer = super::machine::OBJECTS.replace("- {addresses: [10.244.2.3], nodeName: node-b}\n", "");
    std::fs::write(other.path().join("objects.yaml"), fewer).unwrap();
    let from = super::machine::spelled(other.path());
    let own = ["--manifests", &manifests, "--hostname-override=node-a", "--proxy-mode=kernelspace"];
    let output = machine.run(&[&["diff", "--from", &from][..], &own].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text.contains("default/web") && text.contains("10.244.2.3"), "{text}");
}

#[test]
fn variables_of_containers_are_printed() {
    let machine = Machine::new();
    let manifests = machine.manifests();
    let output = machine.run(&["env", "--manifests", &manifests]);
    let text = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
    assert!(text.contains("WEB_SERVICE_HOST=10.96.0.10\n") && text.contains("WEB_SERVICE_PORT=80\n"), "{output:?}");
}
