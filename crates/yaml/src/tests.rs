//! Both YAML readers read the same.

use crate::full::read_one;
use crate::plain::{self, NotPlain};
use crate::tree::Tree;

/// Texts that the plain reader must read exactly as the full one does, or leave to it.
const TEXTS: [&str; 24] = [
    "a: 1",
    "---\na: 1\nb:\n- x\n- y\n",
    "a:\n  - x: 1\n    y: 2\n  -   z: 3\n",
    "a: null\nb: ~\nc:\nd: NULL\n",
    "a: 'it''s'\nb: 'plain'\n",
    "a: \"x\\ny\"\nb: \"x\"  # why\n",
    "a: b # comment\nb: c#d\n",
    "a: {}\nb: []\nc: {x: 1}\nd: [1, 2]\n",
    "a: |\n  text\n  more\nb: >-\n  folded\n",
    "a: one\n  two\n",
    "a: &x 1\nb: *x\n",
    "a: 010\nb: 0x10\nc: 1_000\nd: 1e3\ne: -5\nf: 007.1\n",
    "a: yes\nb: True\nc: off\n",
    "- a\n- b\n",
    "-\n  a: 1\n-\n  b: 2\n",
    "a:\n- b:\n  - c\n  - d\n  e: f\n",
    "a: x: y\n",
    "a: 1\na: 2\n",
    "a:\n   b: 1\n  c: 2\n",
    "  a: 1\n  b: 2\n",
    "a: http://x:80/y?z\nb: 10.0.0.1\nc: ::1\nd: -x\n",
    "a: \"\"\nb: ''\n",
    "1: x\ntrue: y\n",
    "a:\tb\n",
];

fn plain(text: &str) -> Result<Tree, NotPlain> {
    let mut tree = Tree::default();
    plain::parse(text, &mut tree).map(|()| tree)
}

#[test]
fn the_plain_reader_agrees_with_the_full_one() {
    for text in TEXTS {
        let Ok(plain) = plain(text) else { continue };
        assert_eq!(plain.root(text), read_one(text).unwrap().root(text), "{text:?}");
    }
}

const SAMPLE: &str = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web  # why\n  labels:\n    app: \"x y\"\n    \
    b: 'z'\nspec:\n  ports:\n  - name: http\n    port: 80\n    targetPort: 8080\n  - name: two\n    port: 81\n\
    empty:\nlist:\n- a\n- b: 1\n  c: {}\n- []\nlast: word\n";

/// Damages a text in one to three places, the same way for the same seed.
fn damaged(seed: u64) -> String {
    const MARKS: &[u8] = b" \n:-#'\"{}[]&*!|>%@,?~0x.aN\t\\=<";
    let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut roll = |sides: usize| {
        dice = (dice ^ (dice << 13)) ^ ((dice ^ (dice << 13)) >> 7);
        dice ^= dice << 17;
        (dice >> 20) as usize % sides
    };
    let mut bytes = SAMPLE.as_bytes().to_vec();
    for _ in 0..=roll(3) {
        let (place, mark) = (roll(bytes.len()), MARKS[roll(MARKS.len())]);
        match roll(3) {
            0 => bytes[place] = mark,
            1 => bytes.insert(place, mark),
            _ => drop(bytes.remove(place)),
        }
    }
    String::from_utf8(bytes).expect("all marks are ASCII")
}

#[test]
fn the_plain_reader_agrees_on_damaged_documents() {
    let mut plain_ones = 0;
    for seed in 0..20_000 {
        let text = damaged(seed);
        let Ok(plain) = plain(&text) else { continue };
        assert_eq!(plain.root(&text), read_one(&text).unwrap().root(&text), "seed {seed}\n{text}");
        plain_ones += 1;
    }
    assert!(plain_ones > 1_000, "only {plain_ones} are plain");
}

#[test]
fn plain_documents_are_read_by_the_plain_reader() {
    let text = "a: 1\nb:\n- x: y\n  z: 10.0.0.1\n- x: \"quoted\"\nc: {}\n";
    assert!(plain(text).is_ok());
}

/// The plain reader compares each key with all before it, which a mapping of many keys must not make slow.
#[test]
fn a_mapping_of_many_keys_is_left_to_the_full_reader() {
    let text = |keys: usize| (0..keys).map(|key| format!("k{key}: 1\n")).collect::<String>();
    assert!(plain(&text(64)).is_ok());
    assert!(plain(&text(65)).is_err());
    let text = text(100_000);
    assert_eq!(crate::read(&text).unwrap().root(&text).line_of("k99999"), 100_000);
}

#[test]
fn a_mapping_of_many_merge_keys_is_read() {
    let text = format!("a: 1\n{}", "<<: {a: 2, b: 3}\n".repeat(100_000));
    let read: std::collections::BTreeMap<String, u8> = crate::read_as(&text).unwrap();
    assert_eq!(read, [("a".to_owned(), 1), ("b".to_owned(), 3)].into());
}

/// Plain ones and others, with texts that are not in the document as they are.
#[test]
fn documents_of_one_tree_are_as_those_of_their_own() {
    let texts = [
        "a: 1\n",
        "b: {c: \"x\\ty\", d: [\"\\u00fc\"]}\n",
        "- e\n- f: g\n",
        "\"h\\n\": \"i\\n\"\nj: &k l\nm: *k\n",
        SAMPLE,
    ];
    let mut tree = Tree::default();
    let places = texts.map(|text| tree.add(text).unwrap());
    assert!(tree.add("a: [").is_err());
    for (text, place) in texts.iter().zip(places) {
        assert_eq!(tree.node(text, place), crate::read(text).unwrap().root(text), "{text}");
    }
}
