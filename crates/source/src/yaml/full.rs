//! The complete readers, and their errors in the words of a manifest's author.

use serde::de::DeserializeOwned;

/// Why a text cannot be read, and on which line.
#[derive(Debug)]
pub(crate) struct ReadError {
    pub(crate) line: u32,
    pub(crate) reason: String,
}

pub(super) fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    serde_json::from_str(text).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split_once(" at line ").map_or(&*reason, |(before, _)| before).to_owned();
        ReadError { line: error.line() as u32, reason }
    })
}

pub(super) fn read_yaml<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line() as u32);
        ReadError { line, reason: explained(&error.to_string(), text, line) }
    })
}

/// The message without its position and its hints for programmers, and with the text of the line.
fn explained(message: &str, text: &str, line: u32) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
    let message = match message {
        "expected sequence start" => "expected a list",
        "expected mapping start" => "expected a mapping",
        "expected string scalar" => "expected a string",
        other => other,
    };
    let content = text.lines().nth(line.max(1) as usize - 1).unwrap_or("").trim();
    let shown: String = content.chars().take(60).collect();
    if shown.is_empty() { message.replace('\n', " ") } else { format!("{}: {shown:?}", message.replace('\n', " ")) }
}
