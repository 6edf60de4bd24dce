//! A real browser, driven by WebDriver: Debian's chromium and its driver, both of which end with the value.

mod base64;
mod driver;
mod wire;

use serde_json::{Value, json};

use crate::error::Error;
use base64::decode;
use driver::Driver;

/// The keys that are no characters, in the notation of WebDriver.
pub mod key {
    pub const TAB: char = '\u{e004}';
    pub const ENTER: char = '\u{e007}';
    pub const SHIFT: char = '\u{e008}';
    pub const ESCAPE: char = '\u{e00c}';
    pub const LEFT: char = '\u{e012}';
    pub const UP: char = '\u{e013}';
    pub const RIGHT: char = '\u{e014}';
    pub const DOWN: char = '\u{e015}';
}

/// A browser with an empty profile and one tab.
pub struct Browser {
    driver: Driver,
}

impl Browser {
    pub fn start() -> Result<Browser, Error> {
        Ok(Browser { driver: Driver::start()? })
    }

    pub fn open(&self, url: &str) -> Result<(), Error> {
        self.driver.post("url", &json!({"url": url})).map(drop)
    }

    /// The value that the body of a function returns; its arguments are `arguments[0]` and so on.
    pub fn run(&self, body: &str, arguments: &[Value]) -> Result<Value, Error> {
        self.driver.post("execute/sync", &json!({"script": body, "args": arguments}))
    }

    /// The same for a function that calls the last of its arguments with the value.
    pub fn run_later(&self, body: &str, arguments: &[Value]) -> Result<Value, Error> {
        self.driver.post("execute/async", &json!({"script": body, "args": arguments}))
    }

    /// Presses and releases one key after the other, for the element that has the focus.
    pub fn press(&self, keys: &str) -> Result<(), Error> {
        let stroke = |key: char| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        let strokes: Vec<Value> = keys.chars().flat_map(stroke).collect();
        self.act(&strokes)
    }

    /// The same while another key is held.
    pub fn press_with(&self, held: char, key: char) -> Result<(), Error> {
        let down = |key: char| json!({"type": "keyDown", "value": key});
        let up = |key: char| json!({"type": "keyUp", "value": key});
        self.act(&[down(held), down(key), up(key), up(held)])
    }

    fn act(&self, strokes: &[Value]) -> Result<(), Error> {
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": strokes});
        self.driver.post("actions", &json!({"actions": [keyboard]})).map(drop)
    }

    /// A command of the DevTools protocol.
    pub fn devtools(&self, command: &str, parameters: &Value) -> Result<Value, Error> {
        self.driver.post("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Makes the visible part of the page this large, in CSS pixels.
    pub fn resize(&self, width: u32, height: u32) -> Result<(), Error> {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics).map(drop)
    }

    /// Sets preferences of the person, such as `prefers-color-scheme`.
    pub fn prefer(&self, preferences: &[(&str, &str)]) -> Result<(), Error> {
        let features: Vec<Value> =
            preferences.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        self.devtools("Emulation.setEmulatedMedia", &json!({"features": features})).map(drop)
    }

    /// The visible part of the page as a PNG file.
    pub fn picture(&self) -> Result<Vec<u8>, Error> {
        let picture = self.driver.get("screenshot")?;
        decode(picture.as_str().unwrap_or_default())
            .ok_or_else(|| Error::Browser { what: "screenshot".into(), reason: "the answer is not base64".into() })
    }

    /// What the console has shown since the last call, as `LEVEL: TEXT`.
    pub fn console(&self) -> Result<Vec<String>, Error> {
        let line = |it: &Value| format!("{}: {}", text(&it["level"]), text(&it["message"]));
        Ok(self.log("browser")?.iter().map(line).collect())
    }

    /// The addresses that the browser has asked for since the last call.
    pub fn requests(&self) -> Result<Vec<String>, Error> {
        let events = self.log("performance")?;
        let events = events.iter().filter_map(|it| serde_json::from_str::<Value>(text(&it["message"])).ok());
        let of_interest = ["Network.requestWillBeSent", "Network.webSocketCreated"];
        let is_request = |it: &Value| of_interest.contains(&text(&it["message"]["method"]));
        let address = |it: &Value| {
            let params = &it["message"]["params"];
            text(params.pointer("/request/url").unwrap_or(&params["url"])).to_owned()
        };
        Ok(events.filter(is_request).map(|it| address(&it)).collect())
    }

    fn log(&self, kind: &str) -> Result<Vec<Value>, Error> {
        let entries = self.driver.post("se/log", &json!({"type": kind}))?;
        Ok(entries.as_array().cloned().unwrap_or_default())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
