//! Writes values as YAML, in the style of Kubernetes' tools.

use serde_json::Value;

pub(crate) fn write(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (key, value) in entries {
                out.push_str(&format!("{:indent$}{}:", "", scalar_text(key)));
                after_key(out, value, indent);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| list_item(out, item, indent)),
        scalar => out.push_str(&format!("{:indent$}{}\n", "", scalar_of(scalar))),
    }
}

fn after_key(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(out, value, indent + 2);
        }
        // Lists are not indented below their key.
        Value::Array(items) if !items.is_empty() => {
            out.push('\n');
            block(out, value, indent);
        }
        other => out.push_str(&format!(" {}\n", scalar_of(other))),
    }
}

/// The first line of an item follows the dash.
fn list_item(out: &mut String, item: &Value, indent: usize) {
    let mut inner = String::new();
    block(&mut inner, item, indent + 2);
    out.push_str(&format!("{:indent$}- {}", "", inner.trim_start()));
}

fn scalar_of(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::String(text) => scalar_text(text),
        Value::Object(_) => "{}".into(),
        Value::Array(_) => "[]".into(),
        other => other.to_string(),
    }
}

/// Plain if it can only be read as this string; in double quotes otherwise.
fn scalar_text(text: &str) -> String {
    if text.is_empty() || is_ambiguous(text) || text.chars().any(char::is_control) {
        serde_json::to_string(text).unwrap_or_default()
    } else if is_plain(text) {
        text.into()
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}

fn is_plain(text: &str) -> bool {
    let is_safe = |it: char| it.is_ascii_alphanumeric() || "_./,:=+-@()".contains(it);
    text.starts_with(|it: char| it.is_ascii_alphanumeric() || it == '/')
        && text.chars().all(is_safe)
        && !text.ends_with(':')
}

/// Numbers, dates, times, and the words of YAML 1.1 for true, false and null.
fn is_ambiguous(text: &str) -> bool {
    const WORDS: [&str; 10] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "~"];
    let is_number_like = |it: char| it.is_ascii_digit() || "_:-+".contains(it);
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        || text.parse::<f64>().is_ok()
        || text.chars().all(is_number_like) && text.contains(|it: char| it.is_ascii_digit())
        || text.starts_with("0x")
        || text.starts_with("0o")
        || text.starts_with("0b")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_as_kubernetes_does() {
        let value = json!({
            "b": {"inner": "0", "list": [{"x": 1, "z": "two"}, {"x": 2}]},
            "a": "0.0.0.0:10256",
            "c": null, "d": ["primary"], "e": "", "f": "::", "g": "[::1]:10249", "h": "yes", "i": true, "j": "it's",
        });
        let expected = "a: 0.0.0.0:10256\nb:\n  inner: \"0\"\n  list:\n  - x: 1\n    z: two\n  - x: 2\nc: null\nd:\n\
            - primary\ne: \"\"\nf: '::'\ng: '[::1]:10249'\nh: \"yes\"\ni: true\nj: 'it''s'\n";
        assert_eq!(write(&value), expected);
    }
}
