//! `portolan.exe proxy --windows-service` under wine's service control manager.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::machine::{Machine, program, spelled};

const NAME: &str = "portolan-test";

/// Removes the service, and the folder that a service finds without an environment of its own.
struct Installed {
    hns: PathBuf,
    /// wine ends services with the last other program.
    session: Child,
}

impl Drop for Installed {
    fn drop(&mut self) {
        sc(&["stop", NAME]);
        sc(&["delete", NAME]);
        _ = fs::remove_file(&self.hns);
        _ = self.session.kill();
        _ = self.session.wait();
    }
}

fn sc(arguments: &[&str]) -> String {
    let output = Command::new("wine").arg("sc").args(arguments).output().expect("wine");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn install(machine: &Machine) -> Installed {
    let prefix = PathBuf::from(std::env::var_os("WINEPREFIX").expect("tests/windows/run sets it"));
    let hns = prefix.join("drive_c/hns");
    _ = fs::remove_file(&hns);
    symlink(machine.path("hns"), &hns).expect("a writable prefix");
    // It waits for commands.
    let session = Command::new("wine").arg("cmd").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("wine");
    let installed = Installed { hns, session };
    let state = spelled(&machine.path("state"));
    let command = format!(
        "{} proxy --windows-service --state-directory {state} --control-socket {} --hostname-override=node-a \
         --network-name=cbr0 --healthz-bind-address=127.0.0.1:10256 --metrics-bind-address=127.0.0.1:10249 \
         --manifests {}",
        spelled(&program()),
        spelled(&machine.path("control")),
        machine.manifests(),
    );
    let made = sc(&["create", NAME, "binPath=", &command]);
    assert!(sc(&["query", NAME]).contains("STOPPED"), "{made}");
    installed
}

fn log(machine: &Machine) -> String {
    fs::read_to_string(machine.path("state/portolan.log")).unwrap_or_default()
}

#[test]
fn a_service_programs_and_stops() {
    let machine = Machine::new();
    let _installed = install(&machine);
    for run in 1..=2 {
        let started = sc(&["start", NAME]);
        let is_ready = || log(&machine).matches("ready: ").count() == run;
        machine.until_so(is_ready, || format!("{started}\n{}\n{}", sc(&["query", NAME]), log(&machine)));
        assert!(sc(&["query", NAME]).contains("RUNNING"));
        assert_eq!(machine.balancers().len(), 2);
        sc(&["stop", NAME]);
        let query = || sc(&["query", NAME]);
        machine.until_so(|| query().contains("STOPPED"), || format!("{}\n{}", query(), log(&machine)));
        assert!(query().contains("WIN32_EXIT_CODE    : 0"), "{}", query());
        // Services stay in force while no daemon runs.
        assert_eq!(machine.balancers().len(), 2);
    }
}
