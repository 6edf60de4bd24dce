//! What the tests of this crate share.

use std::process::Command;

/// Gives the calling test a network namespace of its own.
pub(crate) fn new_namespace() {
    portolan_kernel::enter_new_network_namespace()
        .expect("this test needs root, to have a network namespace of its own");
}

/// Runs a program in the test's namespace and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("starting {program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("the program prints UTF-8")
}
