//! Flags, YAML and the Corefile lead to the same server.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use super::server::{Server, cluster, portolan, until};

/// As kubeadm writes it, with a stub domain and a list of hosts.
const COREFILE: &str = "
.:53 {
    errors
    health 127.0.0.1:0 {
       lameduck 5s
    }
    ready 127.0.0.1:0
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    hosts {
       192.0.2.5 printer.example
       fallthrough
    }
    forward . 192.0.2.53 {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
    rewrite name a.example b.example
}
corp.example:53 {
    forward . 192.0.2.99
}
";

#[test]
fn a_corefile_is_read_and_unsupported_plugins_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Corefile");
    fs::write(&file, COREFILE).unwrap();
    let server = Server::start(&cluster(), &["--corefile", file.to_str().unwrap()]);
    let hello = server.dig(&["+noall", "+answer", "hello-service.default.svc.cluster.local"]);
    assert_eq!(hello.split_whitespace().nth(1), Some("30"), "{hello}");
    assert_eq!(server.dig(&["+short", "1-2-3-4.shop.pod.cluster.local"]).trim(), "1.2.3.4");
    assert_eq!(server.dig(&["+short", "printer.example"]).trim(), "192.0.2.5");
    let log = server.log();
    assert!(!log.contains("lameduck"), "lameduck is supported: {log}");
    let place = format!("{}:24: rewrite name a.example b.example: this plugin is not supported", file.display());
    assert!(log.contains(&place), "{log}");
}

#[test]
fn a_yaml_file_is_read_and_its_mistakes_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dns.yaml");
    fs::write(
        &file,
        "ttl: 7\nclusterDomains: [example.internal]\nupstreams: [none]\nhosts: [192.0.2.6 scanner.example]\n",
    )
    .unwrap();
    let server = Server::start(&cluster(), &["--config", file.to_str().unwrap()]);
    let hello = server.dig(&["+noall", "+answer", "hello-service.default.svc.example.internal"]);
    assert_eq!(hello.split_whitespace().nth(1), Some("7"), "{hello}");
    assert_eq!(server.dig(&["+short", "scanner.example"]).trim(), "192.0.2.6");
    for (text, complaint) in [
        ("tll: 7\n", "tll"),
        ("pods: everything\n", "write disabled, insecure or verified"),
        ("upstreams: [dns.example]\n", "is not a DNS server"),
        ("listen: [nowhere]\n", "write ADDRESS:PORT"),
        ("autopath: maybe\n", "write off, pods or everybody"),
    ] {
        fs::write(&file, text).unwrap();
        let output = portolan().args(["dns", "--config"]).arg(&file).args(["--manifests", "x"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(complaint), "{text}: {stderr}");
    }
}

#[test]
fn a_changed_file_is_used_without_a_restart_and_an_invalid_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Corefile");
    let write = |zone: &str, ttl: &str, host: &str| {
        let text = format!(
            ".:53 {{\n kubernetes {zone} {{\n  ttl {ttl}\n }}\n hosts {{\n  {host} printer.example\n  fallthrough\n }}\n}}\n"
        );
        fs::write(folder.path().join("draft"), text).unwrap();
        fs::rename(folder.path().join("draft"), &file).unwrap();
    };
    write("cluster.local", "7", "192.0.2.5");
    let at = format!("127.0.0.1:{}", free_port());
    let server = Server::start(&cluster(), &["--corefile", file.to_str().unwrap(), "--metrics", &at]);
    let ttl = |zone: &str| {
        let printed = server.dig(&["+noall", "+answer", &format!("hello-service.default.svc.{zone}")]);
        printed.split_whitespace().nth(1).map(str::to_owned)
    };
    assert_eq!(ttl("cluster.local").as_deref(), Some("7"));
    write("example.internal", "9", "192.0.2.6");
    until("the new zone is served", || ttl("example.internal").as_deref() == Some("9"));
    assert_eq!((ttl("cluster.local"), server.dig(&["+short", "printer.example"]).trim()), (None, "192.0.2.6"));
    let printed = server.dig(&["+tcp", "+short", "printer.example"]);
    assert_eq!(printed.trim(), "192.0.2.6");

    write("example.internal", "soon", "192.0.2.7");
    server.logged("the new configuration is not used: ");
    assert_eq!(server.dig(&["+short", "printer.example"]).trim(), "192.0.2.6");
    let page = get(&at, "/metrics");
    assert!(page.contains("coredns_reload_failed_total 1"), "{page}");
    assert!(page.contains("type=\"A\",view=\"\",zone=\"example.internal.\"}"), "counters go on: {page}");
}

/// What a Corefile withholds is withheld.
#[test]
fn the_restrictions_of_a_corefile_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Corefile");
    let text = ".:53 {\n acl {\n  block net 127.0.0.3\n  filter type AAAA\n  drop net 127.0.0.4\n }\n\
        kubernetes cluster.local in-addr.arpa {\n  namespaces shop\n }\n}\n";
    fs::write(&file, text).unwrap();
    let server = Server::start(&cluster(), &["--corefile", file.to_str().unwrap()]);
    let status = |arguments: &[&str]| {
        let printed = server.dig(arguments);
        printed.split_once("status: ").map_or("none".to_owned(), |(_, rest)| rest[..rest.find(',').unwrap()].to_owned())
    };
    let (shown, hidden) = ("db.shop.svc.cluster.local", "hello-service.default.svc.cluster.local");
    assert_eq!((status(&[shown]), status(&[hidden])), ("NOERROR".into(), "NXDOMAIN".into()));
    assert_eq!(status(&["default.svc.cluster.local"]), "NXDOMAIN");
    assert_eq!(status(&["-x", "10.96.0.10"]), "NXDOMAIN", "a name that is not served");
    assert_eq!(status(&["example.org"]), "REFUSED", "there is no forward");
    assert_eq!(status(&["-x", "fd00::1"]), "REFUSED", "ip6.arpa is not served");
    assert_eq!(status(&["-b", "127.0.0.3", shown]), "REFUSED");
    assert_eq!(status(&["-b", "127.0.0.4", "+time=1", shown]), "none");
    assert_eq!((status(&[shown, "AAAA"]), server.dig(&["+short", shown, "AAAA"])), ("NOERROR".into(), String::new()));
}

#[test]
fn health_ready_and_metrics_are_served() {
    let port = free_port();
    let at = format!("127.0.0.1:{port}");
    let server = Server::start(&cluster(), &["--upstream", "none", "--health", &at, "--ready", &at, "--metrics", &at]);
    server.dig(&["hello-service.default.svc.cluster.local"]);
    assert!(get(&at, "/health").ends_with("\r\n\r\nOK"));
    assert!(get(&at, "/ready").ends_with("\r\n\r\nOK"));
    let page = get(&at, "/metrics");
    assert!(page.contains("type=\"A\",view=\"\",zone=\"cluster.local.\"} 1"), "{page}");
    assert!(get(&at, "/other").contains("404"));
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
