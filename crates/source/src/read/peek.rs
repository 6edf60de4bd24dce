//! Looking at a document without parsing it: enough to know its kind, and, when it cannot be parsed, whose it is.

use super::schema::Header;

/// The value of a key of the outermost block mapping, if it stands on one line.
pub(crate) fn top_level<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = content_lines(text);
    let (indent, first) = lines.next()?;
    let mut lines = std::iter::once((indent, first)).chain(lines);
    lines.find_map(|(column, content)| if column == indent { value_of(content, key) } else { None })
}

/// Kind, namespace and name as far as they stand on lines of their own.
pub(super) fn scanned(text: &str) -> Header {
    let owned = |value: &str| Some(value.to_owned());
    let mut header = Header {
        api_version: top_level(text, "apiVersion").and_then(owned),
        kind: top_level(text, "kind").and_then(owned),
        ..Header::default()
    };
    let metadata = header.metadata.get_or_insert_default();
    metadata.name = below_metadata(text, "name").and_then(owned);
    metadata.namespace = below_metadata(text, "namespace").and_then(owned);
    header
}

fn below_metadata<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = content_lines(text).skip_while(|(_, content)| content.trim_end() != "metadata:");
    let (outer, _) = lines.next()?;
    let block: Vec<(usize, &str)> = lines.take_while(|(indent, _)| *indent > outer).collect();
    let inner = block.first()?.0;
    block.into_iter().find_map(|(indent, content)| if indent == inner { value_of(content, key) } else { None })
}

fn content_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .map(|line| (line.len() - line.trim_start_matches(' ').len(), line.trim_start_matches(' ')))
        .filter(|(_, content)| !content.is_empty() && !content.starts_with(['#', '%']) && !content.starts_with("---"))
}

fn value_of<'a>(content: &'a str, key: &str) -> Option<&'a str> {
    let value = content.strip_prefix(key)?.strip_prefix(':')?;
    let value = value.split_once(" #").map_or(value, |(before, _)| before).trim();
    let value = value.trim_matches(['"', '\'']);
    (!value.is_empty()).then_some(value)
}
