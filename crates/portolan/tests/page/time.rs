//! Time, and everything that takes a daemon: changes with their cause, drift, rates, the comparison with the kernel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use portolan_testkit::Protocol;

use crate::manifests::{EMPTY, NODES, WEB_PODS, many, web};
use crate::page::Page;
use crate::site::Site;

const SERVICES: usize = 14;

fn site() -> Site {
    let others = many(SERVICES - 2);
    let files = [("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS)), ("empty.yaml", EMPTY), ("others.yaml", &others)];
    let site = Site::of_daemon(&files);
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
    page.keep("time");
    page.wait_for_text(".change .causes", "web");
    page.wait_for_text(".change .chip.accent", "default/web");
    site.node().command(&["nft", "delete", "table", "ip", "portolan"]).unwrap();
    page.wait_for_text(".changes .row:not([hidden])", "portolan");
    page.wait("document.querySelector('.changes .kind.warn') !== null");
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
    under_load(&site, || {
        page.browser.resize(1400, 1000).unwrap();
        page.go("#/service/default/web?part=endpoint:0");
        page.wait("document.querySelectorAll('.picture .endpoint').length === 3");
        page.wait("document.querySelector('.picture.has-rates') !== null");
        page.wait("Number(document.querySelector('.numbers strong').textContent) > 0");
        page.wait("document.querySelectorAll('.service-head .spark-line').length === 2");
        page.keep("service");
        for count in [2, 3, 1, 3, 2] {
            site.write("web.yaml", &web(&WEB_PODS[..count]));
            page.wait(&format!("document.querySelectorAll('.picture .endpoint').length === {count}"));
        }
        page.go("#/");
        page.wait_for_text(".recent", "default/web");
        page.wait("[...document.querySelectorAll('.services .row .c')].some((it) => Number(it.textContent) > 0)");
        page.browser.resize(1440, 800).unwrap();
        page.keep("overview");
    });
    page.finish();
}

/// Connections without a pause, as long as the work takes.
fn under_load(site: &Site, work: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = OnDrop(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                site.connect("10.96.0.80:80");
            }
        });
        work();
    });
}

/// Ends the load also where the work panics.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
