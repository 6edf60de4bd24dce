//! Both themes, and small screens.

use crate::manifests::{EMPTY, NODES, WEB_PODS, web};
use crate::page::Page;
use crate::site::Site;

const VIEWS: [&str; 5] = [
    "#/",
    "#/service/default/web",
    "#/service/default/web/modes",
    "#/explain?source=web-1&destination=svc/default/web:http",
    "#/time",
];

fn site() -> Site {
    Site::of_manifests(&[("nodes.yaml", NODES), ("web.yaml", &web(&WEB_PODS)), ("empty.yaml", EMPTY)])
}

#[test]
fn the_theme_is_that_of_the_system_until_one_is_chosen() {
    let site = site();
    let page = Page::of(&site, "");
    let light = brightness(&page);
    page.prefer("dark");
    page.wait("matchMedia('(prefers-color-scheme: dark)').matches");
    let dark = brightness(&page);
    assert!(light > 200.0 && dark < 60.0, "{light} and {dark}");
    page.press("t");
    page.wait("document.documentElement.dataset.theme === 'light'");
    assert_eq!(brightness(&page), light);
    page.go("#/time");
    page.wait("document.documentElement.dataset.theme === 'light'");
    page.press("tt");
    page.wait("document.documentElement.dataset.theme === undefined");
    assert_eq!(brightness(&page), dark);
    page.finish();
}

fn brightness(page: &Page) -> f64 {
    page.number("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3")
}

#[test]
fn text_has_enough_contrast_in_both_themes() {
    let site = site();
    let page = Page::of(&site, "#/service/default/web");
    page.wait("document.querySelectorAll('.picture .endpoint').length === 3");
    for theme in ["light", "dark"] {
        page.prefer(theme);
        page.wait(&format!("matchMedia('(prefers-color-scheme: {theme})').matches"));
        for (text, ground) in [
            ("--ink", "--paper"),
            ("--ink-2", "--panel"),
            ("--ink-3", "--panel"),
            ("--ink-3", "--sunk"),
            ("--accent", "--accent-soft"),
            ("--good", "--good-soft"),
            ("--warn", "--warn-soft"),
            ("--bad", "--bad-soft"),
        ] {
            let ratio = page.number(&CONTRAST.replace("TEXT", text).replace("GROUND", ground));
            assert!(ratio >= 4.5, "{text} on {ground} in the {theme} theme has a contrast of {ratio:.2}");
        }
    }
    page.finish();
}

/// The ratio of WCAG 2, for two colours of the style sheet.
const CONTRAST: &str = "(() => {
  const colour = (name) => {
    const probe = document.createElement('span');
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number);
    probe.remove();
    return parts.map((it) => it / 255).map((it) => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
  };
  const light = (name) => { const [r, g, b] = colour(name); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const [a, b] = [light('TEXT'), light('GROUND')].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
})()";

#[test]
fn every_view_fits_a_small_screen() {
    let site = site();
    let page = Page::unopened(&site);
    page.browser.resize(390, 844).unwrap();
    for view in VIEWS {
        page.go(view);
        page.wait("document.querySelector('#status .node') !== null");
        page.wait("document.querySelector('main').innerText.length > 40");
        let width = page.number("document.documentElement.scrollWidth");
        assert!(width <= 390.0, "{view} is {width} pixels wide");
        assert!(
            page.is(
                "[...document.querySelectorAll('.top nav a')].every((it) => it.getBoundingClientRect().right <= 390)"
            ),
            "{view}"
        );
    }
    page.go("#/");
    page.wait("document.querySelectorAll('.services .row:not([hidden])').length === 2");
    page.keep("small");
    page.finish();
}
