//! Cuts the text of a file into documents before anything is parsed, so that a malformed document never hides the others.

use std::ops::Range;
use std::sync::Arc;

use portolan_yaml::{self as yaml, Tree};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::document::{Content, Document, Item, heading};
use crate::spec::Header;

pub(crate) fn split(file: &str) -> Vec<Document> {
    let text = file.strip_prefix('\u{feff}').unwrap_or(file);
    let mut documents = Vec::new();
    for (line, chunk) in chunks(text) {
        let Some(objects) = json_objects(chunk, line) else {
            documents.extend(yaml_documents(file, chunk, line));
            continue;
        };
        documents.extend(objects.into_iter().flat_map(|(line, text)| json_documents(file, text, line)));
    }
    documents
}

/// Where a part of the file is in it.
fn range(file: &str, part: &str) -> Range<usize> {
    let start = offset(file, part);
    start..start + part.len()
}

/// `part` is a slice of `text`.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

/// Cuts at every `---` in the first column. YAML ends even a block scalar there, so this needs no parsing.
fn chunks(text: &str) -> Vec<(u32, &str)> {
    let mut found = Vec::new();
    let (mut start, mut start_line) = (0, 1);
    let candidates = text.match_indices("\n---").map(|(end, _)| end + 1);
    for offset in candidates.filter(|offset| is_separator(&text[*offset..])) {
        let chunk = &text[start..offset];
        found.extend(trimmed(start_line, chunk));
        (start, start_line) = (offset, start_line + newlines(chunk));
    }
    found.extend(trimmed(start_line, &text[start..]));
    found
}

fn newlines(text: &str) -> u32 {
    // Sums that fit into a byte, so that the compiler compares many bytes at once.
    let in_chunk = |bytes: &[u8]| bytes.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    text.as_bytes().chunks(255).map(|bytes| u32::from(in_chunk(bytes))).sum()
}

/// Whether the text begins with a line that separates documents.
fn is_separator(text: &str) -> bool {
    let line = text.split('\n').next().unwrap_or_default();
    line.strip_prefix("---").is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with([' ', '\t']))
}

/// A chunk without the comments, directives and the bare separator before its first content, if it has any.
fn trimmed(line: u32, chunk: &str) -> Option<(u32, &str)> {
    let is_filler = |line: &str| line.is_empty() || line == "---" || line.starts_with(['#', '%']);
    let filler = chunk.split_inclusive('\n').take_while(|line| is_filler(line.trim()));
    let (lines, bytes) = filler.fold((0, 0), |(lines, bytes), line| (lines + 1, bytes + line.len()));
    (bytes < chunk.len()).then(|| (line + lines, &chunk[bytes..]))
}

/// The objects of a chunk that is JSON, each with its line: one object, several behind each other, or an array of them.
fn json_objects(chunk: &str, line: u32) -> Option<Vec<(u32, &str)>> {
    let body = chunk.strip_prefix("---").unwrap_or(chunk);
    if !body.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut objects = Vec::new();
    for value in serde_json::Deserializer::from_str(body).into_iter::<&RawValue>() {
        let value = value.ok()?.get();
        match serde_json::from_str::<Vec<&RawValue>>(value) {
            Ok(items) => objects.extend(items.iter().map(|item| located(chunk, line, item.get()))),
            Err(_) => objects.push(located(chunk, line, value)),
        }
    }
    Some(objects)
}

/// A part of a text, with its line.
fn located<'a>(text: &'a str, line: u32, part: &'a str) -> (u32, &'a str) {
    (line + newlines(text.get(..offset(text, part)).unwrap_or_default()), part)
}

/// `kind: List` and typed lists yield their items, anything else itself.
fn json_documents(file: &str, text: &str, line: u32) -> Vec<Document> {
    let document = Document::new(Content::Json(range(file, text)), line);
    match list_kind(file, &document, text) {
        Some(kind) => of_kind(&kind, json_items(file, text, line)),
        None => vec![document],
    }
}

fn yaml_documents(file: &str, text: &str, line: u32) -> Vec<Document> {
    let document = Document::new(Content::Yaml(range(file, text)), line);
    match list_kind(file, &document, text) {
        Some(kind) => of_kind(&kind, block_items(text, line).unwrap_or_else(|| parsed_items(file, text, line))),
        None => vec![document],
    }
}

fn list_kind(file: &str, document: &Document, text: &str) -> Option<String> {
    if !text.contains("List") {
        return None;
    }
    // A large list is not parsed as a whole for this.
    let heading = document.is_yaml_of_its_own().then(|| heading(text)).flatten();
    let header = heading.filter(|header| !header.kind.is_empty());
    let header = header.or_else(|| document.reader(file, &Tree::default()).read::<Header>().ok())?;
    header.kind.ends_with("List").then_some(header.kind)
}

fn of_kind(list: &str, mut items: Vec<Document>) -> Vec<Document> {
    let kind = list.strip_suffix("List").filter(|kind| !kind.is_empty());
    items.iter_mut().for_each(|item| item.item_kind = kind.map(str::to_owned));
    items
}

fn json_items(file: &str, text: &str, line: u32) -> Vec<Document> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(borrow, default)]
        items: Vec<&'a RawValue>,
    }
    let items = serde_json::from_str::<List<'_>>(text).map(|list| list.items).unwrap_or_default();
    let items = items.into_iter().map(|item| located(text, line, item.get()));
    items.map(|(line, item)| Document::new(Content::Json(range(file, item)), line)).collect()
}

/// The items of a list in block style, cut at their dashes: with the dash replaced by a space, an item is a document.
fn block_items(text: &str, line: u32) -> Option<Vec<Document>> {
    let mut lines = (line..).zip(text.split_inclusive('\n')).skip_while(|(_, line)| line.trim_end() != "items:");
    lines.next()?;
    let mut items: Vec<(u32, String)> = Vec::new();
    let mut dash = None;
    for (number, line) in lines {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let filler = content.trim().is_empty() || content.starts_with('#');
        let starts = content.starts_with("- ") || content.trim_end() == "-";
        if starts && *dash.get_or_insert(indent) == indent {
            let text = format!("{:indent$} {}", "", &content[1..]);
            items.push((number, text));
        } else if filler || dash.is_some_and(|dash| indent > dash) {
            items.last_mut().into_iter().for_each(|(_, text)| text.push_str(line));
        } else {
            dash?;
            break;
        }
    }
    Some(items.into_iter().map(|(line, text)| Document::new(Content::Made(text), line)).collect())
}

/// The items of a list in any other style, which is parsed as a whole.
fn parsed_items(file: &str, text: &str, first_line: u32) -> Vec<Document> {
    let range = range(file, text);
    let whole = || vec![Document::new(Content::Yaml(range.clone()), first_line)];
    let Ok(list) = yaml::read(text).map(Arc::new) else { return whole() };
    let Some(items) = list.root(text).value("items").filter(|items| !items.is_null()) else { return Vec::new() };
    let yaml::Content::List(items) = items.content() else { return whole() };
    let document = |item: yaml::Node<'_>| {
        let of_list = Item { range: range.clone(), first_line, list: list.clone(), place: item.place() };
        Document::new(Content::Item(of_list), first_line + item.line() - 1)
    };
    items.map(document).collect()
}
