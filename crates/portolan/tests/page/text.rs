//! Text from objects is text, whatever it looks like.

use crate::manifests::NODES;
use crate::page::Page;
use crate::site::Site;

const MARKUP: &str = "<img src=x onerror=\"window.broken=1\"><b>bold</b>";

/// Names and zones with markup are refused by validation; the lines of a file are free text.
fn hostile() -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec:\n  clusterIP: 10.96.0.80 # {MARKUP}\n  ports: [{{port: 80}}]\n---\n\
         apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: web-1, labels: {{kubernetes.io/service-name: web}}}}\n\
         addressType: IPv4\nports: [{{port: 8080, protocol: TCP}}]\n\
         endpoints:\n- addresses: [10.244.1.2] # {MARKUP}\n"
    )
}

#[test]
fn markup_is_shown_as_text() {
    let site = Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &hostile())]);
    let page = Page::of(&site, "#/service/default/web?part=frontend:0");
    page.wait("document.querySelectorAll('.picture .endpoint').length === 1");
    page.wait_for_text(".behind .yaml", "clusterIP: 10.96.0.80 # <img src=x onerror=");
    page.click(".box.endpoint");
    page.wait_for_text(".behind .yaml", "<b>bold</b>");
    assert!(page.is("document.querySelector('main img, main b') === null && window.broken === undefined"));
    page.finish();
}

#[test]
fn an_address_with_markup_is_shown_as_text() {
    let site = Site::of_manifests(&[("nodes.yaml", NODES)]);
    let mut page = Page::of(&site, "#/service/default/%3Cimg%20src=x%20onerror=alert(1)%3E");
    page.expect_error("status of 40");
    page.wait_for_text("h1", "<img src=x");
    page.go("#/explain?source=%3Cscript%3Ealert(1)%3C/script%3E&destination=%3Cb%3E");
    page.wait_for_text("[role=alert]", "");
    page.go("#/?search=%3Cimg%20src=x%3E");
    page.wait("document.querySelector('[data-search]').value === '<img src=x>'");
    assert!(page.is("document.querySelector('main img, main b, main script') === null"));
    page.finish();
}
