//! Texts and their meaning.

use serde::Deserialize;
use serde_json::{Value, json};

fn value(text: &str) -> Value {
    portolan_yaml::read_as(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn plain_scalars_follow_the_core_schema_and_the_words_of_yaml_1_1() {
    let cases = [
        ("[~, null, NULL, '', \"null\"]", json!([null, null, null, "", "null"])),
        ("[true, False, YES, no, on, Off, y, N]", json!([true, false, true, false, true, false, true, false])),
        ("['true', \"no\", yess, nope]", json!(["true", "no", "yess", "nope"])),
        ("[0, 7, -7, +7, 1_000, 0x1F, 0o17, 0b101]", json!([0, 7, -7, 7, 1000, 31, 15, 5])),
        ("[18446744073709551615, -9223372036854775808]", json!([u64::MAX, i64::MIN])),
        (
            "[18446744073709551616, 010, 1e3, 1.5, .5, -0.25]",
            json!([18446744073709551616.0, 10.0, 1000.0, 1.5, 0.5, -0.25]),
        ),
        (
            "[1_, _1, 1__0, 0x, 0xG, 0o8, 1.2.3, 10.0.0.1, ::1]",
            json!(["1_", "_1", "1__0", "0x", "0xG", "0o8", "1.2.3", "10.0.0.1", "::1"]),
        ),
        ("[inf, nan, Infinity, .infx, e3]", json!(["inf", "nan", "Infinity", ".infx", "e3"])),
        (
            "[80/tcp, 5s, 2001-01-01, a b, 'it''s', \"\\u00e9\\n\"]",
            json!(["80/tcp", "5s", "2001-01-01", "a b", "it's", "é\n"]),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn collections_and_block_scalars_are_read() {
    let cases = [
        (
            "a:\n- x\n-   y: 1\n    z: 2\n-\nb: {c: [d, {e: f}], g: }\n",
            json!({"a": ["x", {"y": 1, "z": 2}, null], "b": {"c": ["d", {"e": "f"}], "g": null}}),
        ),
        (
            "a: |\n  one\n   two\n\nb: >-\n  one\n  two\nc: one\n  two\n",
            json!({"a": "one\n two\n", "b": "one two", "c": "one two"}),
        ),
        ("- - a\n  - b\n- ? c\n  : d\n", json!([["a", "b"], {"c": "d"}])),
        ("# only a comment\n", json!(null)),
        ("", json!(null)),
        ("%YAML 1.2\n---\na: 1\n...\n", json!({"a": 1})),
        ("ü: ß\n", json!({"ü": "ß"})),
        ("1: x\ntrue: z\n", json!({"1": "x", "true": "z"})),
        ("{\"a\": [1, \"\\u0001\", {\"b\": null}]}", json!({"a": [1, "\u{1}", {"b": null}]})),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn anchors_are_copied_and_merge_keys_filled_in() {
    let cases = [
        ("a: &x [1, 2]\nb: *x\nc: &x 3\nd: *x\n", json!({"a": [1, 2], "b": [1, 2], "c": 3, "d": 3})),
        ("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n", json!({"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}})),
        ("<<: [{a: 1}, {a: 2, b: 3}]\nb: 4\n", json!({"a": 1, "b": 4})),
        ("<<: {<<: {a: 1}}\n", json!({"a": 1})),
        ("'<<': 1\n", json!({"<<": 1})),
        ("&k a: 1\nb: *k\n", json!({"a": 1, "b": "a"})),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn tags_of_the_core_schema_count_and_others_have_no_effect() {
    let text = "[!!str 5, !!str , ! 5, !!int \"5\", !!float 5, !!bool 'yes', !!null x, !foo 5, !!timestamp 2001-01-01]";
    assert_eq!(value(text), json!(["5", "", "5", 5, 5.0, true, null, 5, "2001-01-01"]));
    assert_eq!(value("a: !!map {b: !!seq [c]}\nd: !foo {e: f}\n"), json!({"a": {"b": ["c"]}, "d": {"e": "f"}}));
}

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
struct Sample {
    text: String,
    maybe: Option<String>,
    flag: bool,
    small: u16,
    signed: i32,
    number: f64,
    list: Vec<String>,
    inner: Option<Box<Sample>>,
}

fn sample(text: &str) -> Sample {
    portolan_yaml::read_as(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn the_type_decides_what_a_scalar_is() {
    let read = sample("text: 5\nmaybe: true\nflag: 'on'\nsmall: '0x10'\nsigned: -3\nnumber: 7\nlist: [1, no]\n");
    let expected = Sample {
        text: "5".into(),
        maybe: Some("true".into()),
        flag: true,
        small: 16,
        signed: -3,
        number: 7.0,
        list: vec!["1".into(), "no".into()],
        inner: None,
    };
    assert_eq!(read, expected);
    assert_eq!(sample("maybe: ~\nlist:\ninner:\n  unknown: [x]\n  text: |\n    a\n").inner.unwrap().text, "a\n");
    assert_eq!(sample(""), Sample::default());
}
