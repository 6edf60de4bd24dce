//! The fields of a kubeconfig: what each of them does, and that a bad value is named with its file and its field.

use std::fs;
use std::path::Path;

use portolan_source::cluster::{Cluster, ClusterOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::access::plain;
use super::authority::{Authority, kubeconfig};
use super::fake::Fake;
use super::follower::{Follower, options, tuning};
use super::world::{Cut, World};

/// Stands in every token, key and password of these tests. No error may hold it.
const SECRET: &str = "SECRET";

/// What is wrong with a kubeconfig, at the start or at the first attempt.
pub(crate) async fn complaint(path: &Path) -> String {
    let options = ClusterOptions { kubeconfig: Some(path.into()), ..options() };
    let text = match Cluster::start_tuned(options, tuning(), &Handle::current(), || ()) {
        Err(error) => error.to_string(),
        Ok(_) => Follower::with_kubeconfig(path).fails_with("").await,
    };
    assert!(text.contains(&format!("kubeconfig {}", path.display())), "no file in: {text}");
    assert!(!text.contains(SECRET), "a secret in: {text}");
    text
}

async fn complains(folder: &Path, cluster: Value, user: Value, expected: &str) {
    let text = complaint(&kubeconfig(folder, cluster.clone(), user.clone())).await;
    assert!(text.contains(expected), "{cluster} {user}: {text}");
}

#[tokio::test]
async fn a_bad_cluster_is_named_with_its_field() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    let data = |text: &str| encoded(text.as_bytes());
    let no_certificate = data("-----BEGIN CERTIFICATE-----\nU0VDUkVU\n-----END CERTIFICATE-----\n");
    let server = "https://127.0.0.1:1";
    let cases = [
        (json!({}), "clusters.c.server: is not set"),
        (json!({"server": ""}), "clusters.c.server: is not set"),
        (json!({"server": "ftp://127.0.0.1"}), "clusters.c.server: \"ftp://127.0.0.1\" is no address"),
        (json!({"server": "https://"}), "clusters.c.server: "),
        (json!({"server": "https://a b"}), "clusters.c.server: "),
        (json!({"server": server, "certificate-authority": "none"}), "clusters.c.certificate-authority: cannot read"),
        (
            json!({"server": server, "certificate-authority": "empty"}),
            "clusters.c.certificate-authority: holds no certificate",
        ),
        (
            json!({"server": server, "certificate-authority-data": "!SECRET!"}),
            "clusters.c.certificate-authority-data: is not base64",
        ),
        (json!({"server": server, "certificate-authority-data": no_certificate}), "clusters.c.certificate-authority: "),
        (json!({"server": server, "insecure-skip-tls-verify": "perhaps"}), "line 1, insecure-skip-tls-verify: "),
        (
            json!({"server": server, "tls-server-name": "a b", "insecure-skip-tls-verify": true}),
            "clusters.c.tls-server-name: \"a b\"",
        ),
        (json!({"server": server, "proxy-url": "http://p"}), "clusters.c.proxy-url: is not supported"),
        (json!("SECRET"), "line 1, cluster: "),
    ];
    for (cluster, expected) in cases {
        complains(folder.path(), cluster, json!({}), expected).await;
    }
}

#[tokio::test]
async fn a_bad_user_is_named_with_its_field() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("cluster");
    let (certificate, _) = authority.issue(2100);
    let (_, other_key) = authority.issue(2100);
    fs::write(folder.path().join("ca"), authority.pem()).unwrap();
    fs::write(folder.path().join("certificate"), certificate.pem()).unwrap();
    fs::write(folder.path().join("key"), other_key.serialize_pem()).unwrap();
    fs::write(folder.path().join("empty"), "\n").unwrap();
    let no_key = encoded(b"-----BEGIN PRIVATE KEY-----\n!SECRET!\n-----END PRIVATE KEY-----\n");
    let cases = [
        (json!({"client-certificate": "none", "client-key": "key"}), "users.u.client-certificate: cannot read"),
        (json!({"client-certificate": "certificate", "client-key": "none"}), "users.u.client-key: cannot read"),
        (json!({"client-certificate": "certificate"}), "users.u.client-key: is not set"),
        (json!({"client-key": "key"}), "users.u.client-certificate: is not set"),
        (
            json!({"client-certificate": "empty", "client-key": "key"}),
            "users.u.client-certificate: holds no certificate",
        ),
        (json!({"client-certificate": "certificate", "client-key": "key"}), "users.u.client-certificate: "),
        (
            json!({"client-certificate-data": "?", "client-key": "key"}),
            "users.u.client-certificate-data: is not base64",
        ),
        (
            json!({"client-certificate": "certificate", "client-key-data": "SECRET!"}),
            "users.u.client-key-data: is not base64",
        ),
        (json!({"client-certificate": "certificate", "client-key-data": no_key}), "the key is not a private key"),
        (json!({"token": "SECRET\u{1}"}), "users.u.token: holds characters"),
        (json!({"token": ["SECRET"]}), "line 1, token: "),
        (json!({"tokenFile": "none"}), "users.u.tokenFile: cannot read"),
        (json!({"tokenFile": "empty"}), "is empty; it must hold a bearer token"),
        (json!({"as": "a\nb"}), "users.u.as: "),
        (json!({"as-uid": "a\nb"}), "users.u.as-uid: "),
        (json!({"as-groups": ["a\nb"]}), "users.u.as-groups: "),
        (json!({"as-user-extra": {"k": ["a\nb"]}}), "users.u.as-user-extra: "),
        (
            json!({"auth-provider": {"name": "gcp"}}),
            "users.u.auth-provider: is not supported: Kubernetes 1.26 removed it",
        ),
        (json!("SECRET"), "line 1, user: "),
    ];
    for (user, expected) in cases {
        let cluster = json!({"server": "https://127.0.0.1:1", "certificate-authority": "ca"});
        complains(folder.path(), cluster, user, expected).await;
    }
}

#[tokio::test]
async fn a_bad_context_is_named_with_its_field() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("kubeconfig");
    let context = json!([{"name": "c", "context": {"cluster": "c"}}]);
    let cases = [
        (String::new(), "current-context: is not set"),
        (json!({"current-context": "c"}).to_string(), "current-context: there is no context \"c\""),
        (
            json!({"current-context": "c", "contexts": [{"name": "c", "context": {}}]}).to_string(),
            "contexts.c.cluster: is not set",
        ),
        (
            json!({"current-context": "c", "contexts": context}).to_string(),
            "contexts.c.cluster: there is no cluster \"c\"",
        ),
        ("users:\n- name: u\n  user:\n    token: {a: SECRET}\n".to_owned(), "line 4, token: "),
        ("users: [\n".to_owned(), "line "),
        ("contexts: none\n".to_owned(), "line 1, contexts: "),
    ];
    for (text, expected) in cases {
        fs::write(&path, &text).unwrap();
        let found = complaint(&path).await;
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[tokio::test]
async fn certificates_may_be_in_the_file_itself() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("cluster");
    let (certificate, key) = authority.issue(2100);
    let fake = Fake::start(World::default()).await;
    fake.identify(authority.server(2100, Some(&authority)));
    let cluster = json!({
        "server": format!("https://{}", fake.address), "certificate-authority": "ignored",
        "certificate-authority-data": encoded(authority.pem().as_bytes()),
    });
    let user = json!({
        "client-certificate-data": encoded(certificate.pem().as_bytes()),
        "client-key-data": encoded(key.serialize_pem().as_bytes()),
    });
    Follower::with_kubeconfig(kubeconfig(folder.path(), cluster.clone(), user)).ready().await;
    // The kubelet keeps both in one file.
    fs::write(folder.path().join("both.pem"), certificate.pem() + &key.serialize_pem()).unwrap();
    let user = json!({"client-certificate": "both.pem", "client-key": "both.pem"});
    Follower::with_kubeconfig(kubeconfig(folder.path(), cluster, user)).ready().await;
}

#[tokio::test]
async fn the_name_of_the_server_is_checked() {
    let folder = TempDir::new().unwrap();
    let authority = Authority::new("cluster");
    let fake = Fake::start(World::default()).await;
    fake.identify(authority.server_named("kubernetes.default"));
    fs::write(folder.path().join("ca"), authority.pem()).unwrap();
    let mut cluster = json!({"server": format!("https://{}", fake.address), "certificate-authority": "ca"});
    let text = Follower::with_kubeconfig(kubeconfig(folder.path(), cluster.clone(), json!({}))).fails_with("TLS").await;
    assert!(text.contains("not valid for name"), "{text}");
    cluster["tls-server-name"] = json!("kubernetes.default");
    Follower::with_kubeconfig(kubeconfig(folder.path(), cluster, json!({}))).ready().await;
}

#[tokio::test]
async fn an_unknown_authority_is_only_trusted_on_request() {
    let folder = TempDir::new().unwrap();
    let fake = Fake::start(World::default()).await;
    fake.identify(Authority::new("cluster").server(2100, None));
    let mut cluster = json!({"server": format!("https://{}", fake.address)});
    // Without an authority those of the machine count, if it has any.
    Follower::with_kubeconfig(kubeconfig(folder.path(), cluster.clone(), json!({})))
        .fails_with("certificate-authority")
        .await;
    cluster["insecure-skip-tls-verify"] = json!(true);
    Follower::with_kubeconfig(kubeconfig(folder.path(), cluster, json!({}))).ready().await;
}

/// The headers of the first request.
async fn headers(user: Value) -> std::collections::BTreeMap<String, String> {
    let folder = TempDir::new().unwrap();
    let fake = Fake::start(World::default()).await;
    Follower::with_kubeconfig(kubeconfig(folder.path(), plain(&fake), user)).ready().await;
    let world = fake.world();
    world.requests[0].headers.clone()
}

#[tokio::test]
async fn every_way_to_authenticate_has_its_header() {
    let basic = headers(json!({"username": "admin", "password": "hunter2", "token": "t"})).await;
    assert_eq!(basic["authorization"], "Basic YWRtaW46aHVudGVyMg==");
    assert_eq!(headers(json!({"token": "t"})).await["authorization"], "Bearer t");
    assert_eq!(headers(json!({"token": 17})).await["authorization"], "Bearer 17");
    assert!(!headers(json!({"token": "", "username": "admin"})).await.contains_key("authorization"));
}

#[tokio::test]
async fn another_user_can_be_impersonated() {
    let user = json!({
        "as": "jane", "as-uid": "1", "as-groups": ["developers"], "as-user-extra": {"example.org/scope (x)": ["view"]},
    });
    let headers = headers(user).await;
    assert_eq!((&*headers["impersonate-user"], &*headers["impersonate-uid"]), ("jane", "1"));
    assert_eq!(headers["impersonate-group"], "developers");
    assert_eq!(headers["impersonate-extra-example.org%2fscope%20%28x%29"], "view");
}

#[tokio::test]
async fn a_server_may_have_an_ipv6_address_or_a_path() {
    let folder = TempDir::new().unwrap();
    let fake = Fake::start_at("[::1]:0", World::default()).await;
    Follower::with_kubeconfig(kubeconfig(folder.path(), plain(&fake), json!({}))).ready().await;
    assert_eq!(fake.world().requests[0].headers["host"], fake.address.to_string());
    let cluster = json!({"server": format!("http://{}/k8s/clusters/c-1/", fake.address)});
    let _follower = Follower::with_kubeconfig(kubeconfig(folder.path(), cluster, json!({})));
    fake.until("a request below the path", |world| world.requested("/k8s/clusters/c-1/api/v1/services") > 0).await;
}

#[tokio::test]
async fn documents_of_one_file_are_merged() {
    let folder = TempDir::new().unwrap();
    let fake = Fake::start(World { token: Some("right".into()), ..World::default() }).await;
    let path = kubeconfig(folder.path(), plain(&fake), json!({"token": "right"}));
    let first = fs::read_to_string(&path).unwrap();
    let second = json!({"current-context": "x", "users": [{"name": "u", "user": {"token": "wrong"}}]});
    fs::write(&path, format!("{first}\n---\n{second}\n")).unwrap();
    Follower::with_kubeconfig(path).ready().await;
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let fake = Fake::start(World::default()).await;
    let follower = Follower::of(&fake);
    follower.ready().await;
    let before = fake.world().connections;
    for name in ["one", "two", "three"] {
        fake.change(|world| {
            world.put(super::world::service(name, "10.96.0.9"));
            world.cut(Cut::Clean);
        });
        follower.until(name, |it| super::follower::service(it, name).is_some()).await;
    }
    assert_eq!(fake.world().connections, before, "watches that end in good order are renewed on the same connection");
}

fn encoded(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = |group: &[u8]| {
        let word = group.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        let digit = |index: usize| char::from(alphabet[(word >> (18 - 6 * index)) as usize & 63]);
        (0..4).map(|index| if index > group.len() { '=' } else { digit(index) }).collect::<String>()
    };
    bytes.chunks(3).map(digits).collect()
}
