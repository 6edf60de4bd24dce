//! `portolan.exe proxy --windows-service` under wine's service control manager.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use super::machine::{Machine, program, spelled};
use super::process::finish;

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
    let mut command = Command::new("wine");
    command.arg("sc").args(arguments).stdin(Stdio::null());
    let text =
        |output: Output| [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
    // No panic, since this is also called while another one unwinds.
    finish(command).map_or_else(|error| error, text)
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
    // That of a test that was killed has the paths of its own machine.
    sc(&["delete", NAME]);
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
