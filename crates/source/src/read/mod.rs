//! From text to Kubernetes' own structures: the only place that meets YAML and JSON.

pub(crate) mod document;
pub(crate) mod locate;
mod node;
pub(crate) mod peek;
mod plain;
pub(crate) mod schema;

use serde::de::DeserializeOwned;

use document::Document;

/// Why a text could not be read, and on which line of the file.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub(crate) line: u32,
    pub(crate) reason: String,
}

pub(crate) fn read<T: DeserializeOwned>(document: &Document<'_>) -> Result<T, Unreadable> {
    let read = if document.json { read_json(&document.text) } else { read_either(&document.text) };
    read.map_err(|error| Unreadable { line: document.line + error.line.max(1) - 1, reason: error.reason })
}

/// Kind, namespace and name as far as they can be read from a document that is broken elsewhere.
pub(crate) fn identity(document: &Document<'_>) -> schema::Header {
    read(document).unwrap_or_else(|_| peek::scanned(&document.text))
}

fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    serde_json::from_str(text).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split_once(" at line ").map_or(&*reason, |(before, _)| before).to_owned();
        Unreadable { line: error.line() as u32, reason }
    })
}

/// The fast reader first; whenever it is in doubt, the full one decides.
fn read_either<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    let plain = plain::parse(text).and_then(T::deserialize);
    plain.or_else(|_| read_yaml(text))
}

pub(crate) fn read_yaml<T: DeserializeOwned>(text: &str) -> Result<T, Unreadable> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line() as u32);
        Unreadable { line, reason: explained(&error.to_string(), text, line) }
    })
}

/// The full reader's words, without its own idea of the place and its hints for programmers, and with the text meant.
fn explained(message: &str, text: &str, line: u32) -> String {
    let message = message.split(" at line ").next().unwrap_or(message);
    let message = message.split(", set DuplicateKeyPolicy").next().unwrap_or(message);
    let message = match message {
        "expected sequence start" => "a list is expected here",
        "expected mapping start" => "a mapping is expected here",
        "expected string scalar" => "a text is expected here",
        other => other,
    };
    let content = text.lines().nth(line.max(1) as usize - 1).unwrap_or("").trim();
    let shown: String = content.chars().take(60).collect();
    if shown.is_empty() { message.replace('\n', " ") } else { format!("{}: {shown:?}", message.replace('\n', " ")) }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// Texts that the fast reader must read exactly as the full one does, or leave to it.
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

    #[test]
    fn the_fast_reader_agrees_with_the_full_one() {
        for text in TEXTS {
            let Ok(fast) = plain::parse(text).and_then(serde_json::Value::deserialize) else { continue };
            let full: serde_json::Value = read_yaml(text).unwrap_or_else(|error| panic!("{text:?}: {}", error.reason));
            assert_eq!(fast, full, "{text:?}");
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
    fn the_fast_reader_agrees_on_damaged_documents() {
        let mut fast_ones = 0;
        for seed in 0..20_000 {
            let text = damaged(seed);
            let Ok(fast) = plain::parse(&text).and_then(serde_json::Value::deserialize) else { continue };
            let full = read_yaml::<serde_json::Value>(&text);
            let full = full.unwrap_or_else(|error| panic!("seed {seed}: {}\n{text}", error.reason));
            assert_eq!(fast, full, "seed {seed}\n{text}");
            fast_ones += 1;
        }
        assert!(fast_ones > 1_000, "only {fast_ones} took the fast way");
    }

    #[test]
    fn plain_documents_take_the_fast_way() {
        let text = "a: 1\nb:\n- x: y\n  z: 10.0.0.1\n- x: \"quoted\"\nc: {}\n";
        assert!(plain::parse(text).is_ok());
    }
}
