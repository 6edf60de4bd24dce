//! Whatever a text contains, reading ends, and what was written is read back.

use portolan_yaml::{DuplicateKeys, read, read_all, read_as, read_first};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// An error lies within the text, or on the line behind its last one. In YAML a carriage return alone ends a line, too.
fn survives(text: &str) -> Result<(), TestCaseError> {
    let lines = text.split(['\n', '\r']).count() as u32 + 1;
    let results =
        [read(text).map(drop), read_all::<Value>(text).map(drop), read_first(text, DuplicateKeys::Kept).map(drop)];
    for error in results.into_iter().filter_map(Result::err) {
        prop_assert!((1..=lines).contains(&error.line) && !error.reason.is_empty(), "{error:?}");
    }
    if read(text).is_ok() {
        let read = read_as::<Value>(text);
        prop_assert!(read.is_ok() || text.contains(['.', 'e', 'E']), "{text}: {read:?}");
    }
    Ok(())
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        "[ -~äß\n\t]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let map = prop::collection::btree_map("[a-z~<][a-z0-9./ -]{0,8}", inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            map.prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The value in block style, with strings and keys in double quotes.
fn block(value: &Value, indent: usize) -> String {
    match value {
        Value::Array(items) if !items.is_empty() => {
            items.iter().map(|item| format!("\n{:indent$}-{}", "", block(item, indent + 1))).collect()
        }
        Value::Object(map) if !map.is_empty() => {
            let entry = |(key, value)| format!("\n{:indent$}{}:{}", "", Value::String(key), block(value, indent + 1));
            map.iter().map(|(key, value)| entry((key.clone(), value))).collect()
        }
        scalar => format!(" {scalar}"),
    }
}

#[test]
fn an_error_after_lone_carriage_returns_is_within_the_text() {
    survives(" \r \r\0").unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn any_syntax_is_survived(text in "([a-c]: |- |\n|  |[{}\\[\\],&*!|>%@?~#'\":.0-9<\t-]|&a |\\*a|---\n|<<: ){0,60}") {
        survives(&text)?;
    }

    #[test]
    fn json_is_yaml(value in anything()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            prop_assert_eq!(read_as::<Value>(&text).unwrap(), value.clone(), "{}", text);
        }
    }

    #[test]
    fn block_style_is_read_back(value in anything()) {
        let text = block(&value, 0);
        let read = read_as::<Value>(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(read, value, "{}", text);
    }
}
