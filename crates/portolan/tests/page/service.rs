//! A Service: the picture, what is behind its parts, and the objects of every mode.

use crate::manifests::{EMPTY, NODES, WEB_PODS, web};
use crate::page::Page;
use crate::site::Site;

const PICTURE: &str = "document.querySelectorAll('.picture .endpoint').length === 3";

fn site() -> Site {
    Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS)), ("empty.yaml", EMPTY)])
}

#[test]
fn a_service_is_drawn_from_clients_to_endpoints() {
    let site = site();
    let page = Page::of(&site, "#/service/default/web");
    page.wait(PICTURE);
    assert_eq!(page.texts(".client strong"), ["a pod", "the node itself", "outside"]);
    let frontends = page.texts(".frontend strong");
    assert!(frontends.contains(&"10.96.0.80:80".to_owned()), "{frontends:?}");
    assert!(frontends.contains(&"198.51.100.10:80".to_owned()), "{frontends:?}");
    assert_eq!(page.texts(".endpoint .line:first-child strong"), ["web-1", "web-2", "web-3"]);
    // The external policy is Local: outside clients get the pool of this node, everyone else that of the cluster.
    page.wait("document.querySelectorAll('.picture .pool').length === 2");
    page.wait("[...document.querySelectorAll('.arrow.share')].every((it) => it.querySelector('.arrow-line').getAttribute('d'))");
    page.finish();
}

#[test]
fn an_arrow_shows_the_field_its_line_and_the_objects() {
    let site = site();
    let page = Page::of(&site, "#/service/default/web");
    page.wait(PICTURE);
    page.click(".arrow.outside[aria-label*='local pool']");
    page.wait("document.querySelector('.arrow[aria-pressed=true]') !== null");
    page.wait_for_text(".behind code", "spec.externalTrafficPolicy");
    page.wait_for_text(".behind .yaml", "externalTrafficPolicy: Local");
    page.wait_for_text(".behind .where-line", "web.yaml:8");
    page.wait("document.querySelectorAll('.listing .marked').length > 0");
    assert!(page.is("location.hash.includes('part=route')"), "the choice can be shared");
    page.click(".box.endpoint");
    page.wait_for_text(".listing .marked", "10.244.1.2");
    page.finish();
}

#[test]
fn the_same_part_is_highlighted_in_every_mode() {
    let site = site();
    let page = Page::of(&site, "#/service/default/web/modes");
    page.wait(PICTURE);
    page.wait("document.querySelectorAll('.listings.all > section').length >= 4");
    page.click(".box.endpoint");
    page.wait("document.querySelectorAll('.listings.all > section').length === document.querySelectorAll('.listings.all > section:has(.marked)').length");
    page.wait("[...document.querySelectorAll('.listings.all > section')].every((it) => [...it.querySelectorAll('.marked')].some((line) => line.textContent.includes('10.244.1.2')))");
    page.prefer("dark");
    page.browser.resize(1440, 1400).unwrap();
    page.keep("modes");
    page.finish();
}

#[test]
fn a_refusal_is_part_of_the_picture() {
    let site = site();
    let page = Page::of(&site, "#/service/shop/reports");
    page.wait_for_text(".route.refused .reason", "no-endpoints");
    page.wait_for_text(".endpoint.idle .chip", "not ready");
    page.finish();
}

#[test]
fn a_service_that_does_not_exist_is_said_to_be_missing() {
    let site = site();
    let mut page = Page::of(&site, "#/service/default/wbe");
    page.expect_error("status of 404");
    page.expect_error("status of 400");
    page.wait_for_text("[role=alert]", "wbe");
    page.finish();
}
