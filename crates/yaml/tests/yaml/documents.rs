//! Several documents, lines of fields, and keys that repeat.

use portolan_yaml::{Content, DuplicateKeys, Error, read, read_all, read_first};
use serde_json::{Value, json};

#[test]
fn a_text_may_hold_several_documents() {
    let values = |text: &str| read_all::<Value>(text).unwrap();
    assert_eq!(
        values("a: &x 1\n---\n# nothing\n---\nb: 2\n...\n---\nc\n"),
        [json!({"a": 1}), json!(null), json!({"b": 2}), json!("c")]
    );
    assert_eq!(values(""), Vec::<Value>::new());
    // Anchors end with their document.
    assert!(read_all::<Value>("a: &x 1\n---\nb: *x\n").is_err());
}

#[test]
fn what_follows_the_first_document_does_not_matter() {
    let first = |text: &str| {
        let tree = read_first(text, DuplicateKeys::Refused)?;
        let root = tree.root(text);
        Ok::<_, Error>((root.line(), root.read::<Value>().unwrap()))
    };
    assert_eq!(first("# why\n---\n---\na: 1\n---\nb: [\n"), Ok((4, json!({"a": 1}))));
    assert_eq!(first("---\n"), Ok((1, json!(null))));
    assert!(first("a: [\n").is_err());
}

#[test]
fn keys_that_repeat_can_be_kept() {
    let text = "a: 1\nb: {c: 2, c: 3}\na: 4\n";
    let tree = read_first(text, DuplicateKeys::Kept).unwrap();
    let Content::Map(entries) = tree.root(text).content() else { panic!("{tree:?}") };
    let keys: Vec<_> = entries.map(|entry| (entry.line, entry.key)).collect();
    assert_eq!(keys, [(1, "a"), (2, "b"), (3, "a")]);
}

#[test]
fn a_field_has_the_line_of_its_key_and_an_item_its_own() {
    let text = "spec:\n  # why\n  ports:\n  - name: a\n    port: 80\n  -\n    name: b\n  more: {x: 1,\n    y: 2}\n";
    // With a letter beyond ASCII the full reader reads it.
    for text in [text.to_owned(), format!("{text}ü: 1\n")] {
        let tree = read(&text).unwrap();
        let lines = [
            ("spec", 1),
            ("spec.ports", 3),
            ("spec.ports[0]", 4),
            ("spec.ports[0].port", 5),
            ("spec.ports[1].name", 7),
            ("spec.ports[1].port", 7),
            ("spec.ports[2]", 3),
            ("spec.more.y", 9),
            ("none", 1),
            ("", 1),
        ];
        for (path, line) in lines {
            assert_eq!(tree.root(&text).line_of(path), line, "{path} in {text}");
        }
    }
}
