//! Credential plugins: what they are given, what they may print, and when they are run again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use portolan_source::cluster::{ClusterOptions, Tuning};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::access::{interrupt, plain};
use super::authority::{Authority, kubeconfig};
use super::fake::Fake;
use super::fields::complaint;
use super::follower::{Follower, options, tuning};
use super::world::World;

const VERSION: &str = "client.authentication.k8s.io/v1";

/// A program that counts its runs in the file `runs`, does something, and prints an ExecCredential.
fn plugin(folder: &Path, work: &str, status: &Value) {
    let credential = json!({"kind": "ExecCredential", "apiVersion": VERSION, "status": status});
    script(folder, &format!("echo >>{}/runs\n{work}\ncat <<'X'\n{credential}\nX\n", folder.display()));
}

fn script(folder: &Path, text: &str) {
    let path = folder.join("plugin");
    fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn runs(folder: &Path) -> usize {
    fs::read_to_string(folder.join("runs")).unwrap_or_default().lines().count()
}

/// A shell reads the script: what has just been written cannot always be executed, while another test forks.
fn exec(folder: &Path) -> Value {
    json!({"apiVersion": VERSION, "command": "sh", "args": [folder.join("plugin")], "interactiveMode": "Never"})
}

#[tokio::test]
async fn a_plugin_is_given_what_the_kubeconfig_promises() {
    let folder = TempDir::new().unwrap();
    let seen = folder.path().join("seen");
    let work = format!("echo \"$1-$2 $GREETING $KUBERNETES_EXEC_INFO\" >{}", seen.display());
    plugin(folder.path(), &work, &json!({"token": "right"}));
    let fake = Fake::start(World { token: Some("right".into()), ..World::default() }).await;
    let mut cluster = plain(&fake);
    cluster["tls-server-name"] = json!("kubernetes");
    cluster["insecure-skip-tls-verify"] = json!(true);
    cluster["extensions"] = json!([{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "here"}}]);
    cluster["certificate-authority-data"] = json!("Zm9v");
    let mut exec = exec(folder.path());
    exec["apiVersion"] = json!("client.authentication.k8s.io/v1beta1");
    exec["args"].as_array_mut().unwrap().extend([json!("one"), json!("two")]);
    exec["env"] = json!([{"name": "GREETING", "value": "hello"}]);
    exec["provideClusterInfo"] = json!(true);
    let server = cluster["server"].clone();
    Follower::with_kubeconfig(kubeconfig(folder.path(), cluster, json!({"exec": exec}))).ready().await;
    let seen = fs::read_to_string(seen).unwrap();
    let information = seen.strip_prefix("one-two hello ").expect("arguments and environment");
    let information: Value = serde_json::from_str(information).unwrap();
    let cluster = json!({
        "server": server, "tls-server-name": "kubernetes", "insecure-skip-tls-verify": true,
        "certificate-authority-data": "Zm9v", "config": {"audience": "here"},
    });
    let spec = json!({"interactive": false, "cluster": cluster});
    let expected =
        json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1", "spec": spec});
    assert_eq!(information, expected);
}

#[tokio::test]
async fn a_plugin_may_issue_a_certificate() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("cluster");
    let (certificate, key) = authority.issue(2100);
    let status = json!({"clientCertificateData": certificate.pem(), "clientKeyData": key.serialize_pem()});
    plugin(folder.path(), "", &status);
    fs::write(folder.path().join("ca"), authority.pem()).unwrap();
    let fake = Fake::start(World::default()).await;
    fake.identify(authority.server(2100, Some(&authority)));
    let cluster = json!({"server": format!("https://{}", fake.address), "certificate-authority": "ca"});
    // A command with a slash is relative to the kubeconfig.
    let exec = json!({"apiVersion": VERSION, "command": "./plugin"});
    Follower::with_kubeconfig(kubeconfig(folder.path(), cluster, json!({"exec": exec}))).ready().await;
}

#[tokio::test]
async fn a_plugin_is_run_again_only_when_its_token_is_about_to_end() {
    for (expires, is_run_again) in [("2100-01-01T00:00:00Z", false), ("2020-01-01T00:00:00Z", true)] {
        let folder = TempDir::new().unwrap();
        plugin(folder.path(), "", &json!({"token": "right", "expirationTimestamp": expires}));
        let fake = Fake::start(World { token: Some("right".into()), ..World::default() }).await;
        let path = kubeconfig(folder.path(), plain(&fake), json!({"exec": exec(folder.path())}));
        let follower = Follower::with_kubeconfig(path);
        follower.ready().await;
        let before = runs(folder.path());
        fake.change(|world| world.cut(super::world::Cut::Clean));
        fake.change(|world| world.put(super::world::service("new", "10.96.0.9")));
        follower.until("new", |it| super::follower::service(it, "new").is_some()).await;
        assert_eq!(runs(folder.path()) > before, is_run_again, "{expires}");
    }
}

#[tokio::test]
async fn a_token_in_the_kubeconfig_makes_the_plugin_needless() {
    let folder = TempDir::new().unwrap();
    plugin(folder.path(), "", &json!({"token": "other"}));
    let fake = Fake::start(World { token: Some("right".into()), ..World::default() }).await;
    let user = json!({"token": "right", "exec": exec(folder.path())});
    let follower = Follower::with_kubeconfig(kubeconfig(folder.path(), plain(&fake), user));
    follower.ready().await;
    interrupt(&fake, &follower, "new").await;
    assert_eq!(runs(folder.path()), 0);
}

#[tokio::test]
async fn a_bad_plugin_is_named() {
    let folder = TempDir::new().unwrap();
    let cluster = json!({"server": "http://127.0.0.1:1"});
    let cases = [
        (json!({"command": null}), "users.u.exec.command: is not set"),
        (json!({"apiVersion": "client.authentication.k8s.io/v1alpha1"}), "users.u.exec.apiVersion: "),
        (json!({"apiVersion": null}), "users.u.exec.apiVersion: \"\" is not supported"),
        (json!({"interactiveMode": "Sometimes"}), "users.u.exec.interactiveMode: \"Sometimes\" is none of"),
        (
            json!({"command": "/none", "installHint": "install it"}),
            "users.u.exec: /none: cannot run: No such file or directory (os error 2) (install it)",
        ),
        (json!({"args": "one"}), "line 1, args: "),
        (json!({"env": [{"value": "SECRET"}]}), "line 1"),
    ];
    for (change, expected) in cases {
        let mut exec = exec(folder.path());
        exec.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let text = complaint(&kubeconfig(folder.path(), cluster.clone(), json!({"exec": exec}))).await;
        assert!(text.contains(expected), "{change}: {text}");
    }
}

#[tokio::test]
async fn what_a_plugin_prints_is_judged_and_never_quoted() {
    let folder = TempDir::new().unwrap();
    let status = |status: Value| format!("cat <<'X'\n{}\nX", json!({"status": status}));
    let cases = [
        ("echo token: SECRET; echo the login has ended >&2; exit 3".to_owned(), "exit status: 3: the login has ended"),
        ("echo SECRET".to_owned(), "the output is not an ExecCredential"),
        ("echo '{}'".to_owned(), "the output has no status"),
        (status(json!({})), "neither a token nor a client certificate"),
        (status(json!({"clientCertificateData": "SECRET"})), "must be given together"),
        (status(json!({"token": "SECRET", "expirationTimestamp": "tomorrow"})), "status.expirationTimestamp: "),
        (status(json!({"token": "SECRET\u{1}"})), "holds characters"),
        (status(json!({"clientCertificateData": "SECRET", "clientKeyData": "SECRET"})), "holds no certificate"),
    ];
    let authority = authority_file(folder.path());
    let cluster = json!({"server": "https://127.0.0.1:1", "certificate-authority": authority});
    for (text, expected) in cases {
        script(folder.path(), &text);
        let found = complaint(&kubeconfig(folder.path(), cluster.clone(), json!({"exec": exec(folder.path())}))).await;
        assert!(found.contains("users.u.exec: ") && found.contains(expected), "{text}: {found}");
    }
}

#[tokio::test]
async fn a_plugin_that_hangs_is_killed_with_what_it_started() {
    let folder = TempDir::new().unwrap();
    // Each watch runs it; the first line is of the run that fails first.
    let processes = folder.path().join("processes");
    let hang = "timeout --foreground 60 tail -f /dev/null";
    script(folder.path(), &format!("{hang} &\necho $! >>{}\nwait\n", processes.display()));
    let cluster = json!({"server": "http://127.0.0.1:1"});
    let path = kubeconfig(folder.path(), cluster, json!({"exec": exec(folder.path())}));
    let tuning = Tuning { plugin: Duration::from_secs(1), ..tuning() };
    let follower = Follower::start(ClusterOptions { kubeconfig: Some(path), ..options() }, tuning);
    let error = follower.fails_with("users.u.exec: sh: ").await;
    assert!(error.contains("did not end within 1 s and was killed"), "{error}");
    let processes = fs::read_to_string(processes).unwrap();
    let command = Path::new("/proc").join(processes.lines().next().unwrap()).join("cmdline");
    // A process that waits to be reaped has no command line any more.
    let is_gone = async || {
        while fs::read(&command).is_ok_and(|text| !text.is_empty()) {
            tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>()).await.unwrap_err();
        }
    };
    tokio::time::timeout(super::PATIENCE, is_gone()).await.expect("what the plugin has started is killed, too");
}

/// The file of an authority.
fn authority_file(folder: &Path) -> &'static str {
    fs::write(folder.join("ca"), Authority::new("cluster").pem()).unwrap();
    "ca"
}
