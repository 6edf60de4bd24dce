//! `portolan env` and `portolan run`.

use std::path::Path;
use std::process::Command;

use super::server::portolan;

const SHOP: &str = "
kind: Service
metadata: {name: kubernetes}
spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}
---
kind: Service
metadata: {name: web-front, namespace: shop}
spec: {clusterIP: 10.96.0.20, ports: [{port: 80}]}
---
kind: Pod
metadata: {name: quiet, namespace: shop}
spec: {enableServiceLinks: false}
---
kind: Pod
metadata: {name: usual, namespace: shop}
";

fn run(arguments: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    std::fs::write(&file, SHOP).unwrap();
    let (command, arguments) = arguments.split_first().unwrap();
    let mut program = portolan();
    program.arg(command).arg("--manifests").arg(&file).arg("--state-directory").arg(folder.path());
    let output = program.args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), text)
}

#[test]
fn variables_come_in_three_forms() {
    let (_, dotenv) = run(&["env", "--namespace", "shop"]);
    assert!(dotenv.lines().any(|line| line == "WEB_FRONT_PORT=tcp://10.96.0.20:80"), "{dotenv}");
    let (_, export) = run(&["env", "--namespace", "shop", "-o", "export"]);
    assert!(export.lines().any(|line| line == "export WEB_FRONT_SERVICE_HOST='10.96.0.20'"), "{export}");
    let (_, json) = run(&["env", "--namespace", "shop", "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["KUBERNETES_SERVICE_PORT_HTTPS"], "443");
}

#[test]
fn a_pod_can_disable_service_links() {
    let names = |arguments: &[&str]| run(arguments).1.matches("WEB_FRONT").count();
    assert!(names(&["env", "--namespace", "shop", "--pod", "usual"]) > 0);
    assert_eq!(names(&["env", "--namespace", "shop", "--pod", "quiet"]), 0);
    assert_eq!(names(&["env", "--namespace", "shop", "--enable-service-links=false"]), 0);
    let (succeeded, output) = run(&["env", "--namespace", "shop", "--pod", "missing"]);
    assert!(!succeeded && output.contains("there is no Pod shop/missing"), "{output}");
}

#[test]
fn a_command_runs_as_a_container_would() {
    let script = "echo $WEB_FRONT_SERVICE_HOST; cat /etc/resolv.conf; exit 7";
    let (succeeded, output) = run(&["run", "--namespace", "shop", "--dns", "192.0.2.10", "--", "sh", "-c", script]);
    assert!(!succeeded);
    assert!(
        output.starts_with("10.96.0.20\nsearch shop.svc.cluster.local svc.cluster.local cluster.local"),
        "{output}"
    );
    assert!(output.contains("\nnameserver 192.0.2.10\noptions ndots:5\n"), "{output}");
    assert!(
        !std::fs::read_to_string("/etc/resolv.conf").unwrap().contains("192.0.2.10"),
        "other processes keep theirs"
    );
    let (succeeded, output) = run(&["run", "--keep-resolv-conf", "--", "/nowhere/at/all"]);
    assert!(!succeeded && output.contains("starting /nowhere/at/all"), "{output}");
}

/// Another user may have placed a link where the file would be.
#[test]
fn run_writes_through_no_link() {
    let folder = tempfile::tempdir().unwrap();
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let links =
        "for name in portolan-resolv-$$.conf portolan-$$ portolan-resolv-$$; do ln -s $VICTIM $TMPDIR/$name; done";
    let script = format!("{links}; exec $PORTOLAN run --dns 192.0.2.10 --manifests $EXAMPLES -- cat /etc/resolv.conf");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("TMPDIR", folder.path()).env("VICTIM", &victim);
    command.env("PORTOLAN", env!("CARGO_BIN_EXE_portolan"));
    command.env("EXAMPLES", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"));
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("nameserver 192.0.2.10"), "{text} {output:?}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    let left = std::fs::read_dir(folder.path()).unwrap().flatten().filter(|it| !it.path().is_symlink());
    assert_eq!(left.count(), 1, "nothing but the victim is left");
}
