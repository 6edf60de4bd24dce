//! What a plain scalar means: the core schema of YAML 1.2, and the words of YAML 1.1 for true and false.

use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    Null,
    Boolean(bool),
    /// Within the range of `i64` or of `u64`.
    Integer(i128),
    Number(f64),
    Text(&'a str),
}

impl<'a> Scalar<'a> {
    /// What a plain scalar means by itself.
    pub fn of(text: &'a str) -> Self {
        if is_null(text) {
            return Self::Null;
        }
        let integer = integer(text).filter(|number| (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(number));
        let boolean = || boolean(text).map(Self::Boolean);
        let number = || number(text).map(Self::Number);
        integer.map(Self::Integer).or_else(boolean).or_else(number).unwrap_or(Self::Text(text))
    }

    /// For messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Boolean(_) => "true or false",
            Self::Integer(_) | Self::Number(_) => "a number",
            Self::Text(_) => "a string",
        }
    }
}

pub(crate) fn is_null(text: &str) -> bool {
    text.is_empty() || text == "~" || text.eq_ignore_ascii_case("null")
}

pub(crate) fn boolean(text: &str) -> Option<bool> {
    let text = trim(text);
    let is_one_of = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match text.len() {
        1..=5 if is_one_of(["true", "yes", "y", "on"]) => Some(true),
        1..=5 if is_one_of(["false", "no", "n", "off"]) => Some(false),
        _ => None,
    }
}

/// A decimal number has no leading zeros, which were octal in YAML 1.1. Underscores may stand between digits.
pub(crate) fn integer(text: &str) -> Option<i128> {
    let text = trim(text);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (radix, digits) = match unsigned.get(..2) {
        Some("0x" | "0X") => (16, &unsigned[2..]),
        Some("0o" | "0O") => (8, &unsigned[2..]),
        Some("0b" | "0B") => (2, &unsigned[2..]),
        _ => (10, unsigned),
    };
    let is_octal = radix == 10 && digits.len() > 1 && digits.starts_with('0');
    let is_numeral = digits.chars().all(|it| it.is_digit(radix) || it == '_');
    let is_separated = !digits.starts_with('_') && !digits.ends_with('_') && !digits.contains("__");
    if is_octal || !is_numeral || !is_separated {
        return None;
    }
    let digits = if digits.contains('_') { Cow::Owned(digits.replace('_', "")) } else { Cow::Borrowed(digits) };
    let number = i128::from_str_radix(&digits, radix).ok()?;
    Some(if text.starts_with('-') { -number } else { number })
}

/// Also infinite, if it has too many digits.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = trim(text);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.eq_ignore_ascii_case(".nan") {
        return Some(f64::NAN);
    }
    if unsigned.eq_ignore_ascii_case(".inf") {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let is_numeral = unsigned.starts_with(|it: char| it.is_ascii_digit() || it == '.');
    is_numeral.then(|| text.parse().ok()).flatten()
}

/// Scalars in quotes and block scalars may have such padding.
fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}
