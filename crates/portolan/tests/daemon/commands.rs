//! The commands that query and print.

use std::path::Path;
use std::process::{Command, Output};

use crate::node::{Node, WEB, WEB_IP, web};
use crate::poll::until;

fn text(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn running() -> Node {
    Node::running(&[("web.yaml", &web(WEB_IP, &["10.244.1.2"]))])
}

#[test]
fn verify_shows_differences() {
    let mut node = running();
    node.stop();
    let output = node.query_files(&["verify"], "manifests");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    node.nft(&format!("delete element ip portolan cluster-ips {{ {WEB_IP} }}"));
    let output = node.query_files(&["verify"], "manifests");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains(&format!("cluster-ips {WEB_IP}")), "{}", text(&output));
}

#[test]
fn diff_compares_with_the_running_daemon() {
    let node = running();
    let folder = node.path("other");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("web.yaml"), web(WEB_IP, &["10.244.1.2"])).unwrap();
    let compare = || node.query(&["diff", "--manifests", folder.to_str().unwrap()]);
    let same = compare();
    assert_eq!(same.status.code(), Some(0), "{}", text(&same));
    std::fs::write(folder.join("web.yaml"), web(WEB_IP, &["10.244.2.2"])).unwrap();
    let other = compare();
    assert_eq!(other.status.code(), Some(1), "{}", text(&other));
    for word in ["default/web", "10.244.1.2", "10.244.2.2"] {
        assert!(text(&other).contains(word), "{word} is missing in {}", text(&other));
    }
    assert!(node.query(&["verify"]).status.success(), "diff changes nothing");
}

#[test]
fn every_command_prints_json() {
    let mut node = running();
    let folder = node.path("manifests");
    let folder = folder.to_str().unwrap();
    let packet = ["explain", "10.244.1.4", WEB, "--output", "json"];
    let answers = [
        node.query(&packet),
        node.query_files(&packet, "manifests"),
        node.query(&["services", "--output", "json"]),
        node.query_files(&["services", "--output", "json"], "manifests"),
        node.query(&["verify", "--output", "json"]),
        node.query_files(&["verify", "--output", "json"], "manifests"),
        node.query(&["diff", "--output", "json", "--manifests", folder]),
        node.query_files(&["diff", "--output", "json", "--from", folder], "manifests"),
        node.query_files(&["render", "--output", "json"], "manifests"),
    ];
    node.stop();
    for output in answers.iter().chain([&node.plainly(&["cleanup", "--output", "json"])]) {
        assert_eq!(output.status.code(), Some(0), "{}", text(output));
        let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&output.stdout);
        assert!(parsed.is_ok_and(|value| value.is_object() || value.is_array()), "{}", text(output));
    }
}

#[test]
fn explain_answers_from_the_kernel_and_from_files() {
    let node = running();
    let forwarded = ["explain", "10.244.1.4", WEB];
    let refused = ["explain", "10.244.1.4", "10.96.0.80:81"];
    for (words, expected) in [(&forwarded, "10.244.1.2:8080"), (&refused, "unknown-port")] {
        for output in [node.query(words), node.query_files(words, "manifests")] {
            assert_eq!(output.status.code(), Some(0), "{}", text(&output));
            assert!(text(&output).contains(expected), "{}", text(&output));
        }
    }
}

/// The manifests that users start with.
#[test]
fn the_examples_have_no_problems() {
    let node = Node::new();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let output = node.query_files(&["services"], examples);
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]), "{}", text(&output));
    assert!(text(&output).contains("3/3") && !text(&output).contains("0/"), "{}", text(&output));
}

/// A command without a running daemon fails with a remedy.
#[test]
fn commands_without_a_daemon_name_the_remedy() {
    let mut node = running();
    node.stop();
    for words in [&["services"][..], &["verify"], &["explain", "10.244.1.4", WEB]] {
        let output = node.query(words);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("start portolan proxy"), "{}", text(&output));
    }
    node.start();
    until("the daemon answers again", || node.query(&["services"]).status.success());
}

/// The answer would be that of another set of manifests.
#[test]
fn a_path_that_cannot_be_read_is_a_failure() {
    let node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    for words in [&["services"][..], &["render"], &["verify"], &["explain", "10.244.1.4", WEB]] {
        for path in ["/nonexistent", "manifests/none.yaml"] {
            let output = node.query_files(words, path);
            assert_eq!(output.status.code(), Some(2), "{words:?} {path}: {}", text(&output));
            assert!(text(&output).contains(path), "{}", text(&output));
        }
        assert_ne!(node.query_files(words, "manifests").status.code(), Some(2), "{words:?}");
    }
    let environment = node.plainly(&["env", "--manifests", "/nonexistent"]);
    assert_eq!(environment.status.code(), Some(2), "{}", text(&environment));
    let from = node.query_files(&["diff", "--from", "/nonexistent"], "manifests");
    assert_eq!(from.status.code(), Some(2), "{}", text(&from));
}

#[test]
fn manifests_come_from_a_pipe() {
    let node = Node::new();
    node.write("web.yaml", &web(WEB_IP, &["10.244.1.2"]));
    let (program, file) = (env!("CARGO_BIN_EXE_portolan"), node.path("manifests/web.yaml"));
    for line in ["\"$0\" services --manifests <(cat \"$1\")", "cat \"$1\" | \"$0\" services --manifests /dev/stdin"] {
        let output = Command::new("bash").args(["-c", line, program]).arg(&file).output().unwrap();
        assert!(output.status.success() && text(&output).contains("default/web"), "{line}: {}", text(&output));
    }
}

/// kube-proxy's status, whatever the action.
#[test]
fn proxy_fails_with_1() {
    let node = Node::new();
    // A process of root without capabilities can change no rules, and no limit of connection tracking.
    let program = env!("CARGO_BIN_EXE_portolan");
    for action in [&["--cleanup"][..], &["--init-only", "--manifests=/etc", "--conntrack-min=900000"]] {
        let words = [&["setpriv", "--bounding-set=-all", "--inh-caps=-all", program, "proxy"], action].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        let output = node.lab.host(portolan_testkit::topology::NODE).run(|| command.output()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{action:?}: {}", text(&output));
    }
}
