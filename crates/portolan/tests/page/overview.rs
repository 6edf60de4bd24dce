//! Overview: the node and its Services, and the search.

use portolan_testkit::browser::key;

use crate::manifests::{DNS, EMPTY, NODES, WEB_PODS, web};
use crate::page::Page;
use crate::site::Site;

fn site() -> Site {
    let web = web(&WEB_PODS);
    Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &web), ("empty.yaml", EMPTY), ("dns.yaml", DNS)])
}

#[test]
fn overview_shows_the_node_and_its_services() {
    let site = site();
    let page = Page::of(&site, "");
    page.wait_for_text("#status .node", "node-a");
    page.wait_for_text(".tile .value", "3");
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 3");
    let names = page.texts(".services .row:not([hidden]) .name");
    assert_eq!(names, ["default/web", "kube-system/kube-dns", "shop/reports"]);
    page.wait_for_text(".row[data-colour=bad] .endpoints", "no endpoint");
    page.finish();
}

#[test]
fn services_are_found_by_any_word_and_the_search_is_in_the_address() {
    let site = site();
    let page = Page::of(&site, "");
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 3");
    page.write("[data-search]", "10.96.0.10 udp");
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 1");
    assert_eq!(page.texts(".services .row:not([hidden]) .name"), ["kube-system/kube-dns"]);
    assert!(page.is("location.hash.includes('search=10.96.0.10')"));
    page.press(key::ENTER);
    page.wait_for_text("h1", "kube-dns");
    page.browser.run("history.back()", &[]).unwrap();
    page.wait("document.querySelector('[data-search]').value === '10.96.0.10 udp'");
    page.write("[data-search]", "no-such-thing");
    page.wait("document.querySelector('.services.nothing') !== null");
    page.finish();
}

#[test]
fn a_column_orders_the_table() {
    let site = site();
    let page = Page::of(&site, "");
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 3");
    page.click(".heads [data-key=state]");
    page.wait("document.querySelector('.services .row:not([hidden]) .name').textContent === 'shop/reports'");
    assert!(page.is("location.hash.includes('order=state')"));
    page.finish();
}
