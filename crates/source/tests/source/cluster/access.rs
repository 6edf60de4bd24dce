//! Credentials of the client: kubeconfig, service account, plugins, and what happens when they change.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use portolan_model::ServiceName;
use portolan_source::cluster::{Cluster, ClusterOptions, EventKind, InCluster, Tuning};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::authority::{Authority, kubeconfig};
use super::fake::Fake;
use super::follower::{Follower, options, service, tuning};
use super::world::{self, Cut, Seen, World};

pub(crate) fn plain(fake: &Fake) -> Value {
    json!({"server": format!("http://{}", fake.address)})
}

/// Ends all watches and changes something, and waits until we know.
pub(crate) async fn interrupt(fake: &Fake, follower: &Follower, name: &str) {
    fake.change(|world| {
        world.cut(Cut::Abrupt);
        world.put(world::service(name, "10.96.0.9"));
    });
    follower.until(name, |it| service(it, name).is_some()).await;
}

#[tokio::test]
async fn a_token_file_may_change_at_any_time() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("token"), "first\n").unwrap();
    let fake = Fake::start(World { token: Some("first".into()), ..World::default() }).await;
    let follower = Follower::with_kubeconfig(kubeconfig(folder.path(), plain(&fake), json!({"tokenFile": "token"})));
    follower.ready().await;
    fs::write(folder.path().join("token"), "second").unwrap();
    fake.change(|world| world.token = Some("second".into()));
    interrupt(&fake, &follower, "new").await;
}

#[tokio::test]
async fn a_token_that_is_refused_is_read_again() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("token"), "old").unwrap();
    let fake = Fake::start(World { token: Some("new".into()), ..World::default() }).await;
    let follower = Follower::with_kubeconfig(kubeconfig(folder.path(), plain(&fake), json!({"tokenFile": "token"})));
    let error = follower.fails_with("401").await;
    assert!(error.contains("read again at every attempt"), "{error}");
    fs::write(folder.path().join("token"), "new").unwrap();
    follower.ready().await;
}

#[tokio::test]
async fn a_pod_uses_its_service_account() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("cluster");
    fs::write(folder.path().join("token"), "pod").unwrap();
    fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
    let fake = Fake::start(World { token: Some("pod".into()), ..World::default() }).await;
    fake.identify(authority.server(2100, None));
    let (host, port) = (Some("127.0.0.1".to_owned()), Some(fake.address.port().to_string()));
    let in_cluster = InCluster { host, port, service_account: folder.path().into() };
    let follower = Follower::start(options(), Tuning { in_cluster, ..tuning() });
    follower.ready().await;
    // The cluster gets a new authority, then the pod is told.
    let successor = Authority::new("successor");
    fake.identify(successor.server(2100, None));
    fake.change(|world| world.cut(Cut::Abrupt));
    let error = follower.fails_with("UnknownIssuer").await;
    assert!(error.contains("ca.crt of the service account"), "{error}");
    fs::write(folder.path().join("ca.crt"), successor.pem()).unwrap();
    interrupt(&fake, &follower, "new").await;
}

#[tokio::test]
async fn an_expired_server_certificate_is_named_and_its_renewal_noticed() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("cluster");
    fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
    let fake = Fake::start(World::default()).await;
    fake.identify(authority.server(2021, None));
    let cluster = json!({"server": format!("https://{}", fake.address), "certificate-authority": "ca.crt"});
    let follower = Follower::with_kubeconfig(kubeconfig(folder.path(), cluster, json!({})));
    let error = follower.fails_with("expired").await;
    assert!(error.contains("renew the certificate"), "{error}");
    fake.identify(authority.server(2100, None));
    follower.ready().await;
}

#[tokio::test]
async fn an_expired_client_certificate_recovers_when_its_files_are_replaced() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("cluster");
    let write = |until: i32| {
        let (certificate, key) = authority.issue(until);
        fs::write(folder.path().join("client.crt"), certificate.pem()).unwrap();
        fs::write(folder.path().join("client.key"), key.serialize_pem()).unwrap();
    };
    fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
    write(2021);
    let fake = Fake::start(World::default()).await;
    fake.identify(authority.server(2100, Some(&authority)));
    let cluster = json!({"server": format!("https://{}", fake.address), "certificate-authority": "ca.crt"});
    let user = json!({"client-certificate": "client.crt", "client-key": "client.key"});
    let follower = Follower::with_kubeconfig(kubeconfig(folder.path(), cluster, user));
    follower.fails_with("xpired").await;
    write(2100);
    follower.ready().await;
    // Rotated before it expires, too.
    write(2101);
    interrupt(&fake, &follower, "new").await;
}

#[tokio::test]
async fn a_plugin_gives_the_token_and_is_asked_again_when_it_is_refused() {
    let folder = TempDir::new().unwrap();
    let plugin = folder.path().join("plugin");
    let status = json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "TOKEN"}});
    let script = format!("#!/bin/sh\nsed s/TOKEN/$(cat {0}/token)/ <<X\n{status}\nX\n", folder.path().display());
    fs::write(&plugin, script).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.path().join("token"), "first").unwrap();
    let fake = Fake::start(World { token: Some("first".into()), ..World::default() }).await;
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": plugin, "interactiveMode": "Never", "args": [],
    });
    let follower = Follower::with_kubeconfig(kubeconfig(folder.path(), plain(&fake), json!({"exec": exec})));
    follower.ready().await;
    fs::write(folder.path().join("token"), "second").unwrap();
    fake.change(|world| world.token = Some("second".into()));
    interrupt(&fake, &follower, "new").await;
}

#[tokio::test]
async fn master_wins_over_the_kubeconfig() {
    let folder = TempDir::new().unwrap();
    let fake = Fake::start(World { token: Some("mine".into()), ..World::default() }).await;
    let path = kubeconfig(folder.path(), json!({"server": "https://192.0.2.1:6443"}), json!({"token": "mine"}));
    let master = Some(format!("http://{}", fake.address));
    let options = ClusterOptions { kubeconfig: Some(path), master, ..options() };
    Follower::start(options, tuning()).ready().await;
}

/// As in client-go with a CA. A token is a reason for TLS, too.
#[tokio::test]
async fn an_address_without_a_scheme_means_https_when_there_are_credentials() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("cluster");
    fs::write(folder.path().join("ca"), authority.pem()).unwrap();
    let fake = Fake::start(World { token: Some("mine".into()), ..World::default() }).await;
    let elsewhere = "https://192.0.2.1:6443";
    let start = |cluster: Value, user: Value| {
        let kubeconfig = Some(kubeconfig(folder.path(), cluster, user));
        let master = Some(fake.address.to_string());
        Follower::start(ClusterOptions { kubeconfig, master, ..options() }, tuning())
    };
    fake.identify(authority.server(2100, None));
    // Without the CA of the server, the client must not send the token.
    for user in [json!({"token": "mine"}), json!({"username": "u", "password": "mine"})] {
        let follower = start(json!({"server": elsewhere}), user);
        follower.fails_with("cannot connect to https://").await;
    }
    let has_token = |it: &Seen| it.headers.contains_key("authorization");
    assert!(!fake.world().requests.iter().any(has_token), "no token was sent");
    start(json!({"server": elsewhere, "certificate-authority": "ca"}), json!({"token": "mine"})).ready().await;
    let plainly = Fake::start(World::default()).await;
    let options = ClusterOptions { master: Some(plainly.address.to_string()), ..options() };
    Follower::start(options, tuning()).ready().await;
}

#[tokio::test]
async fn a_password_in_an_address_is_refused_and_not_shown() {
    let folder = TempDir::new().unwrap();
    let cases = [
        (json!({"server": "https://root:SECRET@192.0.2.1"}), None),
        (json!({"server": "https://root:SECRET@192.0.2.1 :x"}), None),
        (json!({"server": "root:SECRET@192.0.2.1"}), None),
        (json!({"server": "https://192.0.2.1", "proxy-url": "http://root:SECRET@p"}), None),
        (json!({"server": "https://192.0.2.1"}), Some("https://root:SECRET@192.0.2.1".to_owned())),
    ];
    for (cluster, master) in cases {
        let kubeconfig = Some(kubeconfig(folder.path(), cluster, json!({})));
        let options = ClusterOptions { kubeconfig, master, ..options() };
        let text = match Cluster::start_tuned(options.clone(), tuning(), &Handle::current(), || ()) {
            Err(error) => error.to_string(),
            Ok(_) => Follower::start(options, tuning()).fails_with("").await,
        };
        assert!(!text.contains("SECRET") && (text.contains("server") || text.contains("proxy-url")), "{text}");
    }
}

pub(crate) fn refusal(options: ClusterOptions, tuning: Tuning) -> String {
    let started = Cluster::start_tuned(options, tuning, &Handle::current(), || ());
    started.err().expect("it cannot start").to_string()
}

#[tokio::test]
async fn what_is_missing_is_named_at_once() {
    let folder = TempDir::new().unwrap();
    let missing = ClusterOptions { kubeconfig: Some(folder.path().join("none")), ..options() };
    let text = refusal(missing, tuning());
    assert!(text.contains("kubeconfig") && text.contains("none"), "{text}");
    let text = refusal(options(), tuning());
    assert!(text.contains("--kubeconfig") && text.contains("KUBERNETES_SERVICE_HOST"), "{text}");
    let in_cluster =
        InCluster { host: Some("h".into()), port: Some("1".into()), service_account: folder.path().into() };
    let text = refusal(options(), Tuning { in_cluster, ..tuning() });
    assert!(text.contains("automountServiceAccountToken"), "{text}");
    let path = kubeconfig(folder.path(), json!({"server": "https://192.0.2.1", "proxy-url": "http://p"}), json!({}));
    let text = refusal(ClusterOptions { kubeconfig: Some(path), ..options() }, tuning());
    assert!(text.contains("proxy-url"), "{text}");
}

#[tokio::test]
async fn requests_keep_to_their_rate() {
    let fake = Fake::start(World::default()).await;
    let master = Some(format!("http://{}", fake.address));
    let follower = Follower::start(ClusterOptions { master, qps: 0.000_001, burst: 3, ..options() }, tuning());
    fake.until("three requests", |world| world.requests.len() == 3).await;
    assert!(follower.cluster.snapshot().is_none(), "the fourth resource must wait for its turn");
}

/// A Service that is listed again with the same annotation has its Event already.
#[tokio::test]
async fn a_malformed_annotation_is_an_event_of_its_service() {
    let fake = Fake::start(World::default()).await;
    let mut malformed = world::service("web", "10.96.0.10");
    malformed["metadata"]["annotations"] = json!({"portolan.dev/algorithm": "fastest"});
    fake.change(|world| world.put(malformed));
    let follower = Follower::of(&fake);
    fake.until("an event", |world| world.requested("/events") == 1).await;
    let event: Value = {
        let world = fake.world();
        let post = world.requests.iter().find(|it| it.method == "POST").expect("there is one");
        serde_json::from_str(&post.body).unwrap()
    };
    assert_eq!((&event["reason"], &event["regarding"]["name"]), (&json!("MalformedAnnotation"), &json!("web")));
    let note = event["note"].as_str().unwrap_or_default();
    assert!(note.contains("metadata.annotations[portolan.dev/algorithm]") && note.contains("fastest"), "{note}");
    fake.change(World::compact);
    interrupt(&fake, &follower, "later").await;
    assert_eq!(fake.world().requested("/events"), 1);
}

#[tokio::test]
async fn events_are_written_and_limited() {
    let fake = Fake::start(World::default()).await;
    let follower = Follower::of(&fake);
    let writer = follower.cluster.events();
    writer.node_event(EventKind::Normal, "Starting", "StartKubeProxy", "");
    let web = ServiceName::new("shop", "web");
    writer.service_event(&web, EventKind::Warning, "Failed", "SyncRules", "because");
    fake.until("two events", |world| world.requested("/events") == 2).await;
    let posts: Vec<Value> = {
        let world = fake.world();
        let posts = world.requests.iter().filter(|it| it.method == "POST");
        posts.map(|it| serde_json::from_str(&it.body).unwrap()).collect()
    };
    assert_eq!(fake.world().requested("/apis/events.k8s.io/v1/namespaces/shop/events"), 1);
    assert_eq!((&posts[0]["regarding"]["kind"], &posts[0]["type"]), (&json!("Node"), &json!("Normal")));
    assert_eq!((&posts[1]["regarding"]["name"], &posts[1]["note"]), (&json!("web"), &json!("because")));
    (0..1000).for_each(|_| writer.node_event(EventKind::Warning, "Failed", "SyncRules", "again"));
    fake.until("the burst", |world| world.requested("/events") == 25).await;
    interrupt(&fake, &follower, "later").await;
    assert_eq!(fake.world().requested("/events"), 25);
}
