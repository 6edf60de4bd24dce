//! Text from objects, made safe for a terminal.

use std::borrow::Cow;

/// Control characters, and others that do not print, as escapes: a name must not move the cursor or reverse the text.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| matches!(letter, '"' | '\'' | '\\') || letter.escape_debug().count() == 1;
    if text.chars().all(is_plain) {
        return text.into();
    }
    let escaped = |letter: char| if is_plain(letter) { letter.to_string() } else { letter.escape_debug().collect() };
    text.chars().map(escaped).collect::<String>().into()
}
