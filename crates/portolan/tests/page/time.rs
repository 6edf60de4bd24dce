//! Time, and everything that takes a daemon: changes with their cause, drift, rates, the comparison with the kernel.

use portolan_testkit::Protocol;

use crate::manifests::{EMPTY, NODES, WEB_PODS, web};
use crate::page::Page;
use crate::site::Site;

fn site() -> Site {
    let site = Site::of_daemon(&[("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS)), ("empty.yaml", EMPTY)]);
    for endpoint in ["10.244.1.2:8080", "10.244.1.3:8080", "10.244.2.2:8080"] {
        site.lab.as_ref().unwrap().serve(endpoint.parse().unwrap(), Protocol::Tcp).unwrap();
    }
    site
}

#[test]
fn a_change_appears_with_cause_latency_and_behaviour() {
    let site = site();
    let page = Page::of(&site, "#/time");
    page.wait("document.querySelectorAll('.changes .row:not([hidden])').length > 0");
    site.write("web.yaml", &web(&["10.244.1.2", "10.244.2.2"]));
    page.wait_for_text(".diff del", "10.244.1.3");
    page.wait_for_text(".change .causes", "web");
    page.wait_for_text(".change .chip.accent", "default/web");
    site.node().command(&["nft", "delete", "table", "ip", "portolan"]).unwrap();
    page.wait_for_text(".changes .row:not([hidden])", "portolan");
    page.wait("document.querySelector('.changes .kind.warn') !== null");
    page.prefer("dark");
    page.keep("time");
    page.finish();
}

#[test]
fn overview_has_rates_and_compares_the_kernel_with_the_plan() {
    let site = site();
    let page = Page::of(&site, "");
    page.wait_for_text(".chip", "healthy");
    page.wait_for_text(".tile h2", "From event to kernel");
    page.click(".tile [title='Reads all objects of the kernel']");
    page.wait_for_text(".tile .link.good-text", "as planned");
    page.go("#/service/default/web");
    page.wait("document.querySelectorAll('.picture .endpoint').length === 3");
    // Rates are read every two seconds, so the connections go on until they show.
    for _ in 0..20 {
        (0..20).for_each(|_| site.connect("10.96.0.80:80"));
        if page.is("[...document.querySelectorAll('.numbers strong')].some((it) => it.textContent !== '0')") {
            break;
        }
    }
    page.wait("document.querySelector('.picture.has-rates') !== null");
    page.keep("rates");
    page.go("#/");
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 2");
    page.keep("overview");
    page.finish();
}
