//! Explain: questions by name, the path, and answers that are errors.

use portolan_testkit::browser::key;

use crate::manifests::{EMPTY, NODES, WEB_PODS, web};
use crate::page::Page;
use crate::site::Site;

fn site() -> Site {
    Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS)), ("empty.yaml", EMPTY)])
}

#[test]
fn a_question_by_names_is_completed_and_answered() {
    let site = site();
    let page = Page::of(&site, "#/explain");
    page.write("#source", "web-1");
    // The field opens with all names; those that fit replace them.
    page.wait("[...document.querySelectorAll('#source-list [role=option]')].length > 0 && [...document.querySelectorAll('#source-list [role=option]')].every((it) => it.textContent.includes('web-1'))");
    page.press(format!("{}{}", key::DOWN, key::ENTER));
    page.wait("document.querySelector('#source').value.includes('web-1')");
    page.write("#destination", "svc/default/web:http");
    page.press(key::ESCAPE);
    page.press(key::ENTER);
    page.wait_for_text(".outcome.good", "one of 3 endpoints");
    page.wait_for_text(".lane.plan .met", "ClusterIP of default/web:http");
    page.wait("document.querySelectorAll('.lane.kernel .step').length > 0");
    assert_eq!(page.texts(".path-endpoints strong"), ["web-1", "web-2", "web-3"]);
    assert!(page.is("location.hash.includes('destination=svc')"), "the question can be shared");
    page.keep("explain");
    page.finish();
}

#[test]
fn a_refusal_says_what_to_look_at() {
    let site = site();
    let page = Page::of(&site, "#/explain?source=client-ip&destination=svc/shop/reports");
    page.wait_for_text(".outcome.bad .chip", "no-endpoints");
    page.wait_for_text(".advice", "reports-1");
    page.finish();
}

#[test]
fn a_mistyped_name_gets_a_suggestion() {
    let site = site();
    let mut page = Page::of(&site, "#/explain?source=web-1&destination=svc/default/wbe");
    page.expect_error("status of 400");
    page.wait_for_text("[role=alert]", "did you mean");
    page.finish();
}

#[test]
fn a_name_without_a_port_is_about_all_ports() {
    let site = Site::of_manifests(&[("nodes.yaml", NODES), ("dns.yaml", crate::manifests::DNS)]);
    let page = Page::of(&site, "#/explain?source=client-ip&destination=svc/kube-system/kube-dns");
    page.wait("document.querySelectorAll('.packets button').length === 2");
    page.click(".packets button:nth-child(2)");
    page.wait_for_text(".ends", "53/tcp");
    page.finish();
}

#[test]
fn the_path_moves_step_by_step_unless_motion_is_unwanted() {
    let site = site();
    let page = Page::unopened(&site);
    page.browser.prefer(&[("prefers-reduced-motion", "no-preference")]).unwrap();
    page.go("#/explain?source=web-1&destination=svc/default/web:http");
    page.wait("document.querySelector('.step.passed') !== null");
    page.wait("document.querySelectorAll('.endpoint-row.passed').length === 3");
    page.click(".player button[aria-label='One step back']");
    page.wait("document.querySelectorAll('.endpoint-row.passed').length === 0");
    page.finish();
}
