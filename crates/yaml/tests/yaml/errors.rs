//! Refusals name the line, the field and the reason, and never the value.

use std::collections::BTreeMap;

use portolan_yaml::Error;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    #[serde(default)]
    _text: Option<String>,
    #[serde(default)]
    _flag: Option<bool>,
    #[serde(default)]
    _port: Option<u16>,
    #[serde(default)]
    _share: Option<f64>,
    #[serde(default)]
    _list: Option<Vec<Sample>>,
    #[serde(default)]
    _labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    _needs: Option<Needs>,
}

#[derive(Debug, Deserialize)]
struct Needs {
    _name: String,
}

fn refusal(text: &str) -> String {
    let read: Result<Sample, Error> = portolan_yaml::read_as(text);
    read.err().unwrap_or_else(|| panic!("{text:?} is read")).to_string()
}

#[test]
fn a_value_of_another_type_is_named_by_line_and_field() {
    let cases = [
        ("_text: [SECRET]", "line 1, _text: expected a string, found a list"),
        ("_list:\n- _text: x\n- _text:\n    a: SECRET\n", "line 4, _text: expected a string, found a mapping"),
        ("_flag: SECRET", "line 1, _flag: expected true or false, found a string"),
        ("_flag: [1]", "line 1, _flag: expected true or false, found a list"),
        ("\n\n_port: SECRET", "line 3, _port: expected an integer, found a string"),
        ("_port: 1.5", "line 1, _port: expected an integer, found a number"),
        ("_port: 70000", "line 1, _port: expected u16, found a number out of range"),
        ("_port: -1", "line 1, _port: expected u16, found a number out of range"),
        ("_port: 99999999999999999999999", "line 1, _port: the number is out of range"),
        ("_share: SECRET", "line 1, _share: expected a number, found a string"),
        ("_list: SECRET", "line 1, _list: expected a list, found a string"),
        ("_list: [SECRET]", "line 1, _list: expected a mapping, found a string"),
        ("_list: [{},\n 5]", "line 2, _list: expected a mapping, found a number"),
        ("_labels:\n  a: b\n  c:\n", "line 3, c: expected a string, found nothing"),
        ("_labels: 5", "line 1, _labels: expected a mapping, found a number"),
        ("_needs:\n  other: SECRET", "line 2, _needs: missing field `_name`"),
        ("SECRET", "line 1: expected a mapping, found a string"),
    ];
    for (text, expected) in cases {
        assert_eq!(refusal(text), expected, "{text}");
    }
    let unknown = refusal("_list:\n- other: SECRET\n");
    assert!(unknown.starts_with("line 2, _list: unknown field `other`, expected one of "), "{unknown}");
}

#[test]
fn a_malformed_text_is_named_by_its_line() {
    let cases = [
        ("a: 1\na: 2\n", "line 2: duplicate mapping key: a"),
        ("{a: {b: 1,\n 'b': 2}}", "line 2: duplicate mapping key: b"),
        ("a: *x\n", "line 1: while parsing node, found unknown anchor"),
        ("a: &x [*x]\n", "line 1: an alias refers to a node around it"),
        ("? [a]\n: b\n", "line 1: a key must be a string"),
        ("a: 1\n~: b\n", "line 2: a key must be a string"),
        ("a: 1\n<<: 5\n", "line 2: the value of << must be a mapping or a list of mappings"),
        ("a: !!int x\n", "line 1: the value does not match its tag !!int"),
        ("a: !!map [x]\n", "line 1: the value does not match its tag !!map"),
        ("a: !!binary aGk=\n", "line 1: the tag !!binary is not supported"),
        ("a: 1\n---\nb: 2\n", "line 3: there is more than one document"),
        ("a: .inf\n", "line 1, a: expected a finite number"),
        ("\na: [1,\n 2\n", "line 2: unclosed bracket '['"),
        ("a: 1\n b: 2\n", "line 2: "),
        ("a: \"x\n", "line 2: "),
    ];
    for (text, expected) in cases {
        let read = portolan_yaml::read_as::<serde_json::Value>(text);
        let refusal = read.err().unwrap_or_else(|| panic!("{text:?} is read")).to_string();
        assert!(refusal.starts_with(expected), "{text:?}: {refusal}");
    }
}

#[test]
fn depth_and_copies_are_limited() {
    let refusal = |text: &str| portolan_yaml::read(text).unwrap_err().to_string();
    assert!(portolan_yaml::read(&format!("{}{}", "[".repeat(100), "]".repeat(100))).is_ok());
    assert!(refusal(&"[".repeat(100_000)).contains("nested more than 100 levels deep"));
    assert!(refusal(&"- ".repeat(1_000)).contains("nested more than 100 levels deep"));
    let bomb: String = (1..40).map(|n| format!("a{n}: &a{n} [*a{p}, *a{p}, *a{p}, *a{p}]\n", p = n - 1)).collect();
    assert!(refusal(&format!("a0: &a0 [x]\n{bomb}")).contains("copy more than 100000 values"));
    let deep: String = (1..200).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    assert!(refusal(&format!("a0: &a0 [x]\n{deep}")).contains("nested more than 100 levels deep"));
    let anchors: String = (0..90).map(|n| format!("&a{n} [")).collect();
    let wide = "x,".repeat(5_000);
    assert!(refusal(&format!("{anchors}{wide}{}", "]".repeat(90))).contains("copy more than 100000 values"));
}
