//! A browser that looks at a site, and what a test asks it.

use std::fs;
use std::path::Path;

use portolan_testkit::browser::Browser;
use serde_json::{Value, json};

use crate::site::Site;

pub(crate) const WIDTH: u32 = 1280;
pub(crate) const HEIGHT: u32 = 800;

pub(crate) struct Page {
    pub(crate) browser: Browser,
    address: String,
    /// Errors that the test provokes, such as an answer with status 400.
    expected: Vec<&'static str>,
}

impl Page {
    /// Opens a view by its part of the address, such as `#/time`.
    pub(crate) fn of(site: &Site, view: &str) -> Page {
        let page = Page::unopened(site);
        page.go(view);
        page
    }

    /// Without motion, so that everything is in place at once; `go` opens a view.
    pub(crate) fn unopened(site: &Site) -> Page {
        let browser = Browser::start().unwrap_or_else(|error| panic!("{error}"));
        let page = Page { browser, address: site.address.clone(), expected: Vec::new() };
        page.prefer("light");
        page.browser.resize(WIDTH, HEIGHT).unwrap();
        page
    }

    pub(crate) fn prefer(&self, theme: &str) {
        self.browser.prefer(&[("prefers-color-scheme", theme), ("prefers-reduced-motion", "reduce")]).unwrap();
    }

    pub(crate) fn go(&self, view: &str) {
        self.browser.open(&format!("{}{view}", self.address)).unwrap();
        self.wait("document.querySelector('main').children.length > 0");
    }

    /// Waits until an expression of JavaScript is true.
    #[track_caller]
    pub(crate) fn wait(&self, condition: &str) {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             const look = () => {{
               let is = false;
               try {{ is = Boolean({condition}); }} catch {{ }}
               if (is) done(true); else setTimeout(look, 20);
             }};
             look();"
        );
        if let Err(error) = self.browser.run_later(&script, &[]) {
            let shown = self.value("document.body.innerText");
            panic!("{condition}\nis not so: {error}\nthe page shows:\n{}", shown.as_str().unwrap_or_default());
        }
    }

    /// Waits until an element has a text.
    #[track_caller]
    pub(crate) fn wait_for_text(&self, selector: &str, text: &str) {
        self.wait(&format!(
            "[...document.querySelectorAll({})].some((it) => it.textContent.includes({}))",
            json!(selector),
            json!(text)
        ));
    }

    pub(crate) fn value(&self, expression: &str) -> Value {
        self.browser
            .run(&format!("return ({expression});"), &[])
            .unwrap_or_else(|error| panic!("{expression}: {error}"))
    }

    pub(crate) fn number(&self, expression: &str) -> f64 {
        self.value(expression).as_f64().unwrap_or_else(|| panic!("{expression} is not a number"))
    }

    pub(crate) fn is(&self, expression: &str) -> bool {
        self.value(expression) == Value::Bool(true)
    }

    /// The text of every element that matches.
    pub(crate) fn texts(&self, selector: &str) -> Vec<String> {
        let found =
            self.value(&format!("[...document.querySelectorAll({})].map((it) => it.textContent)", json!(selector)));
        found.as_array().unwrap().iter().map(|it| it.as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Clicks the first element that matches, as a pointer does: at its place, on whatever is there.
    pub(crate) fn click(&self, selector: &str) {
        self.wait(&format!("document.querySelector({}) !== null", json!(selector)));
        let script = "const element = document.querySelector(arguments[0]);
            element.scrollIntoView({ block: 'center', inline: 'center' });
            element.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true, view: window }));";
        self.browser.run(script, &[json!(selector)]).unwrap();
    }

    /// Writes into a field, with the keyboard.
    pub(crate) fn write(&self, selector: &str, text: &str) {
        self.wait(&format!("document.querySelector({}) !== null", json!(selector)));
        let script = "const field = document.querySelector(arguments[0]); field.focus(); field.select();";
        self.browser.run(script, &[json!(selector)]).unwrap();
        self.browser.press(text).unwrap();
    }

    pub(crate) fn press(&self, keys: impl Into<String>) {
        self.browser.press(&keys.into()).unwrap();
    }

    /// The console may show errors with this text.
    pub(crate) fn expect_error(&mut self, text: &'static str) {
        self.expected.push(text);
    }

    /// Keeps a picture for the documentation, if pictures are asked for.
    pub(crate) fn keep(&self, name: &str) {
        if std::env::var_os("SCREENSHOTS").is_none_or(|it| it.is_empty()) {
            return;
        }
        // Arrows are drawn a frame after their boxes.
        let two_frames = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))";
        self.browser.run_later(two_frames, &[]).unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/page");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.png")), self.browser.picture().unwrap()).unwrap();
    }

    /// What holds for every test: no request has left the origin, and the console shows no error.
    pub(crate) fn finish(self) {
        let requests = self.browser.requests().unwrap();
        assert!(!requests.is_empty(), "the browser has asked for something");
        // The first tab of a browser loads pages of the browser itself.
        let inside = [self.address.as_str(), "data:", "about:", "chrome:"];
        let is_ours = |it: &&String| inside.iter().any(|start| it.starts_with(start));
        let foreign: Vec<&String> = requests.iter().filter(|it| !is_ours(it)).collect();
        assert!(foreign.is_empty(), "requests that leave the origin: {foreign:?}");
        let console = self.browser.console().unwrap();
        let is_expected = |line: &String| self.expected.iter().any(|text| line.contains(text));
        let errors: Vec<&String> = console.iter().filter(|line| !is_expected(line)).collect();
        assert!(errors.is_empty(), "the console shows {errors:?}");
    }
}
