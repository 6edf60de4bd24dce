//! Everything without a pointer, and what a screen reader needs.

use portolan_testkit::browser::key;

use crate::manifests::{EMPTY, NODES, WEB_PODS, web};
use crate::page::Page;
use crate::site::Site;

fn site() -> Site {
    Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS)), ("empty.yaml", EMPTY)])
}

#[test]
fn a_service_is_found_and_read_with_the_keyboard_alone() {
    let site = site();
    let page = Page::of(&site, "");
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 2");
    page.press(key::TAB);
    page.wait("document.activeElement.className === 'skip'");
    page.press(key::ENTER);
    page.wait("document.activeElement.id === 'main'");
    page.press("/");
    page.wait("document.activeElement.matches('[data-search]')");
    page.press(format!("web{}", key::DOWN));
    page.wait("document.activeElement.getAttribute('aria-activedescendant') !== null");
    page.press(key::ENTER);
    page.wait("document.querySelectorAll('.picture .endpoint').length === 3");
    walk_the_picture(&page);
    page.press("m");
    page.wait("document.querySelectorAll('.listings.all > section').length >= 4");
    page.press("ge");
    page.wait("document.activeElement.id === 'source'");
    page.press(format!("web-1{}", key::ESCAPE));
    page.write("#destination", "svc/default/web:http");
    page.press(format!("{}{}", key::ESCAPE, key::ENTER));
    page.wait_for_text(".outcome.good", "endpoints");
    page.finish();
}

/// Tab reaches the picture once; arrow keys lead from clients to endpoints.
fn walk_the_picture(page: &Page) {
    assert_eq!(page.number("document.querySelectorAll('.picture [tabindex=\"0\"]').length"), 1.0, "one stop for Tab");
    for _ in 0..30 {
        if page.is("document.activeElement.closest('.picture') !== null") {
            break;
        }
        page.press(key::TAB);
    }
    page.wait("document.activeElement.matches('.client')");
    page.press(key::RIGHT);
    page.wait("document.activeElement.matches('.arrow')");
    page.press(key::ENTER);
    page.wait("document.activeElement.getAttribute('aria-pressed') === 'true'");
    page.wait("document.querySelector('.behind .fields') !== null");
    (0..5).for_each(|_| page.press(key::RIGHT));
    page.wait("document.activeElement.matches('.endpoint')");
    page.press(key::ENTER);
    page.wait_for_text(".behind h2", "Endpoint");
    page.press(key::ESCAPE);
    page.wait("document.querySelector('[aria-pressed=true].box') === null");
}

#[test]
fn the_list_of_keys_opens_and_closes() {
    let site = site();
    let page = Page::of(&site, "");
    page.press("?");
    page.wait("document.querySelector('#keys').open");
    page.press(key::ESCAPE);
    page.wait("!document.querySelector('#keys').open");
    page.press("gt");
    page.wait("location.hash === '#/time'");
    page.finish();
}

#[test]
fn every_view_has_landmarks_headings_and_names() {
    let site = site();
    let page = Page::unopened(&site);
    for view in ["#/", "#/service/default/web", "#/explain?source=web-1&destination=svc/default/web", "#/time"] {
        page.go(view);
        page.wait("document.querySelector('#status .node') !== null && document.querySelector('h1') !== null");
        for landmark in ["header", "nav[aria-label]", "main", "h1", "[aria-current=page]", "#announcer[aria-live]"] {
            assert!(page.is(&format!("document.querySelector('{landmark}') !== null")), "{view} has no {landmark}");
        }
        let nameless = page.texts(NAMELESS);
        assert_eq!(nameless, Vec::<String>::new(), "{view} has controls without a name");
        assert_eq!(page.number("document.querySelectorAll('[id]').length - new Set([...document.querySelectorAll('[id]')].map((it) => it.id)).size"), 0.0);
    }
    page.finish();
}

/// Controls that a screen reader could not name.
const NAMELESS: &str = "button:empty:not([aria-label]), input:not([aria-label]):not([id]), [role=button]:not([aria-label]), svg[role=img]:not([aria-label])";
