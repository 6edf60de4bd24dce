//! `/healthz` and `/livez`.

use portolan_model::Family;
use portolan_status::Synced;
use serde_json::json;

use crate::fixture::Fixture;
use crate::http::{get, request};

#[test]
fn before_the_first_sync_we_live_but_are_not_ready() {
    let it = Fixture::new();
    it.status.sync_queued();
    let healthz = get(it.healthz(), "/healthz");
    assert_eq!(healthz.status, 503);
    let body = r#"{"lastUpdated":"0001-01-01T00:00:00Z","currentTime":"2026-11-01T12:00:00.5Z","nodeEligible":true,"healthy":true,"reason":"the first sync has not finished","status":{}}"#;
    assert_eq!(healthz.body, body);
    assert_eq!(get(it.healthz(), "/livez").status, 200);
    it.time.pass(600);
    assert_eq!(get(it.healthz(), "/livez").status, 200, "the timeout applies after the first sync");
}

#[test]
fn a_synced_node_is_healthy_in_kube_proxys_format() {
    let it = Fixture::new();
    it.status.sync_queued();
    it.status.synced(&Synced::default());
    it.time.pass(3600);
    let healthz = get(it.healthz(), "/healthz");
    let family = r#"{"lastUpdated":"2026-11-01T12:00:00.5Z","healthy":true}"#;
    let times = r#""lastUpdated":"2026-11-01T13:00:00.5Z","currentTime":"2026-11-01T13:00:00.5Z""#;
    let status = format!(r#""status":{{"IPv4":{family},"IPv6":{family}}}}}"#);
    assert_eq!(healthz.body, format!(r#"{{{times},"nodeEligible":true,"healthy":true,{status}"#));
    assert_eq!(get(it.healthz(), "/livez").body, format!(r#"{{{times},"healthy":true,{status}"#));
    assert_eq!(healthz.status, 200);
    assert_eq!(healthz.header("content-type"), Some("application/json"));
    assert_eq!(healthz.header("x-content-type-options"), Some("nosniff"));
}

#[test]
fn a_change_that_waits_too_long_makes_us_unhealthy_until_the_next_sync() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    it.status.sync_queued();
    it.time.pass(30);
    it.status.sync_queued();
    it.time.pass(29);
    assert_eq!(get(it.healthz(), "/healthz").status, 200);
    it.time.pass(1);
    for page in ["/healthz", "/livez"] {
        let reply = get(it.healthz(), page);
        let json = reply.json();
        assert_eq!((reply.status, &json["healthy"]), (503, &json!(false)), "{page}: the oldest change counts");
        assert_eq!(json["lastUpdated"], "2026-11-01T12:00:00.5Z", "the last healthy time");
    }
    it.status.synced(&Synced::default());
    assert_eq!(get(it.healthz(), "/healthz").status, 200);
}

#[test]
fn one_late_family_is_enough() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    it.status.health.queued(Family::V6);
    it.time.pass(61);
    let reply = get(it.healthz(), "/livez");
    let status = &reply.json()["status"];
    assert_eq!(
        (reply.status, &status["IPv4"]["healthy"], &status["IPv6"]["healthy"]),
        (503, &json!(true), &json!(false))
    );
}

#[test]
fn setting_the_wall_clock_does_not_affect_health() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    it.status.sync_queued();
    it.time.set("2031-01-01T00:00:00Z");
    assert_eq!(get(it.healthz(), "/healthz").status, 200);
    it.time.set("2001-01-01T00:00:00Z");
    it.time.pass(61);
    assert_eq!(get(it.healthz(), "/healthz").status, 503);
}

#[test]
fn a_longer_sync_period_gives_more_time() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    it.status.sync_queued();
    it.time.pass(61);
    it.status.health.set_timeout(std::time::Duration::from_secs(120));
    assert_eq!(get(it.healthz(), "/healthz").status, 200);
}

#[test]
fn a_terminating_node_is_not_eligible_but_live() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    it.status.health.set_node_eligible(false);
    let healthz = get(it.healthz(), "/healthz");
    let json = healthz.json();
    assert_eq!((healthz.status, &json["nodeEligible"], &json["healthy"]), (503, &json!(false), &json!(true)));
    assert!(json.get("reason").is_none());
    assert_eq!(get(it.healthz(), "/livez").status, 200);
    it.status.health.set_node_eligible(true);
    assert_eq!(get(it.healthz(), "/healthz").status, 200);
}

#[test]
fn any_method_is_answered_and_other_paths_are_not_found() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    assert_eq!(request(it.healthz(), "POST", "/healthz", "{}").status, 200);
    let head = request(it.healthz(), "HEAD", "/healthz", "");
    let length: usize = head.header("content-length").unwrap().parse().unwrap();
    assert!(head.status == 200 && head.body.is_empty() && length > 100, "{head:?}");
    for path in ["/", "/healthz/", "/metrics", "/healthz/x"] {
        assert_eq!(get(it.healthz(), path).status, 404, "{path}");
    }
    assert_eq!(get(it.healthz(), "/healthz?verbose").status, 200);
}

#[test]
fn answers_are_counted() {
    let it = Fixture::new();
    get(it.healthz(), "/healthz");
    it.status.synced(&Synced::default());
    get(it.healthz(), "/healthz");
    get(it.healthz(), "/livez");
    let page = get(it.metrics(), "/metrics").body;
    for line in [
        "kubeproxy_proxy_healthz_total{code=\"200\"} 1",
        "kubeproxy_proxy_healthz_total{code=\"503\"} 1",
        "kubeproxy_proxy_livez_total{code=\"200\"} 1",
        "kubeproxy_proxy_livez_total{code=\"503\"} 0",
    ] {
        assert!(page.lines().any(|other| other == line), "{line}");
    }
}

/// What a crashed watch delivered stays in force, but no longer follows the cluster.
#[test]
fn a_watch_that_stays_down_makes_us_unhealthy() {
    let it = Fixture::new();
    it.status.synced(&Synced::default());
    it.status.health.set_watching(false);
    assert!(it.status.health.is_healthy());
    it.time.pass(61);
    it.status.health.set_watching(false);
    assert!(!it.status.health.is_healthy());
    assert_eq!((get(it.healthz(), "/healthz").status, get(it.healthz(), "/livez").status), (503, 503));
    it.status.health.set_watching(true);
    assert_eq!(get(it.healthz(), "/healthz").status, 200);
}
