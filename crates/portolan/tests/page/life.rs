//! Live updates: the page follows the manifests, survives a restart of its server, and pauses while it is hidden.

use crate::manifests::{EMPTY, NODES, WEB_PODS, web};
use crate::page::Page;
use crate::site::Site;

const IS_LIVE: &str = "document.querySelector('#live').dataset.state === 'live'";
const SHOWS_THREE: &str = "document.querySelectorAll('.picture .endpoint').length === 3";

#[test]
fn the_page_follows_the_manifests() {
    let site = Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS[..2]))]);
    let page = Page::of(&site, "#/service/default/web");
    page.wait("document.querySelectorAll('.picture .endpoint').length === 2");
    page.wait(IS_LIVE);
    site.write("web.yaml", &web(&WEB_PODS));
    page.wait(SHOWS_THREE);
    page.go("#/");
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 1");
    page.wait(IS_LIVE);
    site.write("empty.yaml", EMPTY);
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 2");
    page.finish();
}

#[test]
fn the_page_connects_again_when_its_server_was_restarted() {
    let mut site = Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS))]);
    let mut page = Page::of(&site, "");
    page.expect_error("net::ERR_");
    page.wait(IS_LIVE);
    site.end_server();
    page.wait("document.querySelector('#live').dataset.state === 'lost'");
    site.write("empty.yaml", EMPTY);
    site.serve_again();
    page.wait(IS_LIVE);
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 2");
    page.finish();
}

#[test]
fn a_hidden_tab_holds_no_connection() {
    let site = Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS))]);
    let page = Page::of(&site, "");
    page.wait(IS_LIVE);
    let hide = |is_hidden: bool| {
        let script = "Object.defineProperty(document, 'hidden', { value: arguments[0], configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));";
        page.browser.run(script, &[is_hidden.into()]).unwrap();
    };
    hide(true);
    page.wait("document.querySelector('#live').dataset.state === 'paused'");
    site.write("empty.yaml", EMPTY);
    hide(false);
    page.wait(IS_LIVE);
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 2");
    page.finish();
}
