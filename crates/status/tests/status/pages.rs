//! The pages of the metrics server, and changes of its address.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use portolan_status::{Build, Error, Listen, Pages, Status, Synced};
use serde_json::json;

use crate::fixture::{Fixture, Runtime, Time, at, enter_network_of_our_own, options};
use crate::http::{get, request};
use crate::poll;

#[test]
fn small_pages_are_as_kube_proxys() {
    let it = Fixture::new();
    let mode = get(it.metrics(), "/proxyMode");
    assert_eq!((mode.status, mode.body.as_str()), (200, "nftables"));
    assert_eq!(mode.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(get(it.metrics(), "/healthz").body, "ok");
    let metrics = request(it.metrics(), "HEAD", "/metrics", "");
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!((metrics.status, metrics.body.as_str()), (200, ""));
    assert_eq!(get(it.metrics(), "/livez").status, 404);
}

#[test]
fn pings_show_among_the_service_level_indicators() {
    let it = Fixture::new();
    get(it.metrics(), "/healthz");
    get(it.metrics(), "/healthz");
    let page = get(it.metrics(), "/metrics/slis").body;
    assert!(page.contains("kubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\n"), "{page}");
    assert!(page.contains("kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 2\n"));
}

#[test]
fn configuration_pages_follow_the_configuration() {
    let it = Fixture::new();
    let pages = |mode: &str| Pages {
        configz: json!({ "kubeproxy.config.k8s.io": { "mode": mode } }),
        flagz: vec![("v".into(), "2".into()), ("proxy-mode".into(), mode.into())],
        ..Pages::default()
    };
    it.status.set_pages(pages("nftables"));
    assert_eq!(get(it.metrics(), "/configz").json(), pages("nftables").configz);
    it.status.set_pages(pages("other"));
    let configz = get(it.metrics(), "/configz");
    assert_eq!(configz.json()["kubeproxy.config.k8s.io"]["mode"], "other");
    assert_eq!(configz.header("content-type"), Some("application/json"));
    let flagz = get(it.metrics(), "/flagz").body;
    assert!(flagz.starts_with("\nkube-proxy flagz\n") && flagz.ends_with("\n\nproxy-mode=other\nv=2\n"), "{flagz}");
}

#[test]
fn statusz_shows_version_and_start_time() {
    let it = Fixture::new();
    it.time.pass(3 * 3600 + 62);
    it.status.set_build(Build {
        version: "9.9.9".into(),
        kubernetes_version: "v1.38.0".into(),
        mode: "iptables".into(),
    });
    let page = get(it.metrics(), "/statusz").body;
    let lines: Vec<&str> = page.lines().skip(4).collect();
    let expected = [
        "Started: 2026-11-01T12:00:00Z",
        "Up: 3 hr 01 min 02 sec",
        "Binary version: v1.38.0",
        "Implementation: portolan 9.9.9",
        "Paths: /configz /flagz /healthz /metrics /proxyMode",
    ];
    assert_eq!(lines, expected);
    assert_eq!(get(it.metrics(), "/proxyMode").body, "iptables");
}

#[test]
fn debugging_pages_are_there_with_profiling_only() {
    let it = Fixture::new();
    assert_eq!(request(it.metrics(), "PUT", "/debug/flags/v", "4").status, 404);
    assert_eq!(get(it.metrics(), "/debug/pprof/heap").status, 404);
    let heard = Arc::new(Mutex::new(String::new()));
    let hear = heard.clone();
    let set = move |text: &str| {
        *hear.lock().unwrap() = text.to_owned();
        text.parse::<u8>().map(|_| format!("verbosity is now {text}")).map_err(|error| format!("{text:?}: {error}"))
    };
    it.status.set_pages(Pages { profiling: true, set_verbosity: Arc::new(set), ..Pages::default() });
    let changed = request(it.metrics(), "PUT", "/debug/flags/v", "4\n");
    assert_eq!((changed.status, changed.body.as_str()), (200, "verbosity is now 4"));
    assert_eq!(*heard.lock().unwrap(), "4");
    assert_eq!(request(it.metrics(), "PUT", "/debug/flags/v", "loud").status, 400);
    assert_eq!(request(it.metrics(), "PUT", "/debug/flags/v", &"9".repeat(5000)).status, 400);
    assert_eq!(get(it.metrics(), "/debug/flags/v").status, 406);
    let pprof = get(it.metrics(), "/debug/pprof/profile?seconds=1");
    assert!(pprof.status == 501 && pprof.body.contains("perf record"), "{pprof:?}");
}

#[test]
fn servers_move_and_what_was_counted_stays() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    let before = it.healthz();
    get(before, "/healthz");
    it.status.listen_healthz(at("127.0.0.2:10256")).unwrap();
    assert!(std::net::TcpStream::connect(before).is_err(), "the old port is closed at once");
    assert_eq!(get("127.0.0.2:10256".parse().unwrap(), "/healthz").status, 200);
    it.status.listen_metrics(at("127.0.0.1:10249")).unwrap();
    let page = get("127.0.0.1:10249".parse().unwrap(), "/metrics").body;
    assert!(page.contains("kubeproxy_proxy_healthz_total{code=\"200\"} 2\n"));
}

#[test]
fn a_server_moves_between_one_and_all_addresses_of_a_port() {
    let it = Fixture::new();
    for address in ["127.0.0.1:10249", "0.0.0.0:10249", "127.0.0.1:10249", "[::]:10249", "[::1]:10249"] {
        it.status.listen_metrics(at(address)).unwrap_or_else(|error| panic!("{address}: {error}"));
    }
    assert_eq!(get("[::1]:10249".parse().unwrap(), "/healthz").status, 200);
}

#[test]
fn every_address_means_those_of_both_families() {
    let _it = Fixture::with(|options| options.healthz = at("0.0.0.0:10256"));
    for address in ["127.0.0.1:10256", "[::1]:10256"] {
        assert_eq!(get(address.parse().unwrap(), "/livez").status, 200, "{address}");
    }
}

#[test]
fn a_server_can_be_turned_off_and_on() {
    let it = Fixture::new();
    let before = it.metrics();
    it.status.listen_metrics(Listen::default()).unwrap();
    assert!(it.status.metrics_address().is_none() && std::net::TcpStream::connect(before).is_err());
    it.status.listen_metrics(at("127.0.0.1:0")).unwrap();
    assert_eq!(get(it.metrics(), "/healthz").status, 200);
}

#[test]
fn the_same_address_again_changes_nothing() {
    let it = Fixture::new();
    let before = it.healthz();
    it.status.listen_healthz(Listen { address: Some("127.0.0.1:0".parse().unwrap()), must_succeed: false }).unwrap();
    assert_eq!(it.healthz(), before);
}

#[test]
fn a_required_port_that_cannot_be_opened_is_an_error_with_its_address() {
    enter_network_of_our_own();
    let taken = TcpListener::bind("127.0.0.1:10256").unwrap();
    let (time, runtime) = (Time::default(), Runtime::start());
    let mut options = options(&time);
    options.healthz = at(&taken.local_addr().unwrap().to_string());
    let error = Status::start(options, &runtime.handle).err().unwrap();
    assert!(matches!(error, Error::Healthz(_)));
    assert!(error.to_string().starts_with("opening 127.0.0.1:10256 for /healthz: "), "{error}");
}

#[test]
fn an_optional_port_is_served_once_it_is_free() {
    enter_network_of_our_own();
    let taken = TcpListener::bind("127.0.0.1:10256").unwrap();
    let (time, runtime) = (Time::default(), Runtime::start());
    let mut options = options(&time);
    options.healthz = Listen { address: taken.local_addr().ok(), must_succeed: false };
    let status = Status::start(options, &runtime.handle).unwrap();
    assert_eq!(status.healthz_address(), None);
    drop(taken);
    poll::until("the port is served", || status.healthz_address().is_some());
    assert_eq!(get(status.healthz_address().unwrap(), "/livez").status, 200);
}
