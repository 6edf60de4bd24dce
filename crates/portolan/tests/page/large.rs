//! Ten thousand Services. Times are printed; what is asserted is that the right rows appear, and few elements exist.

use crate::manifests::{NODES, many};
use crate::page::Page;
use crate::site::Site;

const COUNT: usize = 10_000;

#[test]
fn ten_thousand_services_are_found_at_once() {
    let site = Site::of_manifests(&[("nodes.yaml", NODES), ("many.yaml", &many(COUNT))]);
    let page = Page::of(&site, "");
    page.wait_for_text(".services .count", "10\u{202f}000");
    let paint = page.number("performance.getEntriesByName('first-contentful-paint')[0].startTime");
    let rows = "document.querySelectorAll('.services .row').length";
    page.wait(&format!("{rows} > 10"));
    assert!(page.number(rows) < 100.0, "only the visible rows exist");
    let filter = page.number(FILTER);
    page.wait_for_text(".services .row:not([hidden]) .name", "service-04711");
    assert_eq!(page.texts(".services .row:not([hidden]) .name").len(), 1);
    page.browser.run("const field = document.querySelector('[data-search]'); field.value = ''; field.dispatchEvent(new Event('input')); document.querySelector('.rows').scrollTop = 1e9;", &[]).unwrap();
    page.wait_for_text(".services .row:not([hidden]) .name", "space-9/service-09989");
    println!(
        "{COUNT} Services: first paint after {paint:.0} ms, all rows known after {:.0} ms, a filter takes {filter:.1} ms",
        page.number(
            "performance.getEntriesByType('resource').find((it) => it.name.endsWith('api/services')).responseEnd"
        )
    );
    page.finish();
}

/// The time from a letter in the search field to the new rows in the document, laid out; the median of several.
const FILTER: &str = "(() => {
  const field = document.querySelector('[data-search]');
  const times = ['s', 'se', 'service-0', 'service-04', 'service-0471', 'service-04711'].map((text) => {
    const start = performance.now();
    field.value = text;
    field.dispatchEvent(new Event('input'));
    document.body.getBoundingClientRect();
    return performance.now() - start;
  });
  return times.sort((a, b) => a - b)[3];
})()";
