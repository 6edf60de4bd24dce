//! Cuts the text of a file into documents before anything is parsed, so that a malformed document never hides the others.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_saphyr::Spanned;

use super::document::{Document, heading};
use super::full::read_yaml;
use crate::spec::Header;

pub(crate) fn split(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut documents = Vec::new();
    for (line, chunk) in chunks(text) {
        match json_documents(chunk, line) {
            Some(found) => found.into_iter().for_each(|document| unwrap_list(document, &mut documents)),
            None => unwrap_list(document(Cow::Borrowed(chunk), line, false), &mut documents),
        }
    }
    documents
}

fn document(text: Cow<'_, str>, line: u32, is_json: bool) -> Document<'_> {
    Document { text, line, is_json, item_kind: None }
}

/// Cuts at every `---` in the first column. YAML ends even a block scalar there, so this needs no parsing.
fn chunks(text: &str) -> Vec<(u32, &str)> {
    let mut found = Vec::new();
    let (mut start, mut start_line, mut offset) = (0, 1, 0);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if is_separator(line) {
            found.extend(trimmed(start_line, &text[start..offset]));
            (start, start_line) = (offset, number);
        }
        offset += line.len();
    }
    found.extend(trimmed(start_line, &text[start..]));
    found
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with([' ', '\t']))
}

/// A chunk without the comments, directives and the bare separator before its first content, if it has any.
fn trimmed(line: u32, chunk: &str) -> Option<(u32, &str)> {
    let is_filler = |line: &str| line.is_empty() || line == "---" || line.starts_with(['#', '%']);
    let filler = chunk.split_inclusive('\n').take_while(|line| is_filler(line.trim()));
    let (lines, bytes) = filler.fold((0, 0), |(lines, bytes), line| (lines + 1, bytes + line.len()));
    (bytes < chunk.len()).then(|| (line + lines, &chunk[bytes..]))
}

/// The objects of a chunk that is JSON: one object, several behind each other, or an array of them.
fn json_documents(chunk: &str, line: u32) -> Option<Vec<Document<'_>>> {
    let body = chunk.strip_prefix("---").unwrap_or(chunk);
    if !body.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut documents = Vec::new();
    for value in serde_json::Deserializer::from_str(body).into_iter::<&RawValue>() {
        let value = value.ok()?.get();
        match serde_json::from_str::<Vec<&RawValue>>(value) {
            Ok(items) => documents.extend(items.iter().map(|item| json_document(chunk, line, item.get()))),
            Err(_) => documents.push(json_document(chunk, line, value)),
        }
    }
    Some(documents)
}

/// `part` is a slice of `chunk`: the difference of their addresses gives its line.
fn json_document<'a>(chunk: &'a str, line: u32, part: &'a str) -> Document<'a> {
    let offset = (part.as_ptr() as usize).saturating_sub(chunk.as_ptr() as usize);
    let before = chunk.as_bytes().get(..offset).unwrap_or_default();
    let lines = before.iter().filter(|byte| **byte == b'\n').count();
    document(Cow::Borrowed(part), line + lines as u32, true)
}

/// `kind: List` and typed lists yield their items, anything else itself.
fn unwrap_list<'a>(document: Document<'a>, documents: &mut Vec<Document<'a>>) {
    let Some(kind) = list_kind(&document) else { return documents.push(document) };
    let first = documents.len();
    match document.text {
        Cow::Borrowed(text) if document.is_json => documents.extend(json_items(text, document.line)),
        Cow::Borrowed(text) => match block_items(text, document.line) {
            Some(items) => documents.extend(items),
            None => documents.extend(parsed_items(document)),
        },
        Cow::Owned(_) => documents.extend(parsed_items(document)),
    }
    let kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
    documents[first..].iter_mut().for_each(|item| item.item_kind = kind.map(str::to_owned));
}

fn list_kind(document: &Document<'_>) -> Option<String> {
    if !document.text.contains("List") {
        return None;
    }
    let header = if document.is_json { None } else { heading(&document.text) };
    let header = header.filter(|header| !header.kind.is_empty());
    let header = header.or_else(|| document.reader().read::<Header>().ok())?;
    header.kind.ends_with("List").then_some(header.kind)
}

fn json_items(text: &str, line: u32) -> Vec<Document<'_>> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(borrow, default)]
        items: Vec<&'a RawValue>,
    }
    let items = serde_json::from_str::<List<'_>>(text).map(|list| list.items).unwrap_or_default();
    items.into_iter().map(|item| json_document(text, line, item.get())).collect()
}

/// The items of a list in block style, cut at their dashes: with the dash replaced by a space, an item is a document.
fn block_items(text: &str, line: u32) -> Option<Vec<Document<'static>>> {
    let mut lines = (line..).zip(text.split_inclusive('\n')).skip_while(|(_, line)| line.trim_end() != "items:");
    lines.next()?;
    let mut items: Vec<Document<'static>> = Vec::new();
    let mut dash = None;
    for (number, line) in lines {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let filler = content.trim().is_empty() || content.starts_with('#');
        let starts = content.starts_with("- ") || content.trim_end() == "-";
        if starts && *dash.get_or_insert(indent) == indent {
            let text = format!("{:indent$} {}", "", &content[1..]);
            items.push(document(Cow::Owned(text), number, false));
        } else if filler || dash.is_some_and(|dash| indent > dash) {
            items.last_mut().into_iter().for_each(|item| item.text.to_mut().push_str(line));
        } else {
            dash?;
            break;
        }
    }
    Some(items)
}

/// A list in any other style is parsed as a whole, and its items become JSON.
fn parsed_items(document: Document<'_>) -> Vec<Document<'_>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Vec<Spanned<serde_json::Value>>,
    }
    let Ok(list) = read_yaml::<List>(&document.text) else { return vec![document] };
    list.items.into_iter().map(|item| parsed_item(item, document.line)).collect()
}

fn parsed_item(item: Spanned<serde_json::Value>, line: u32) -> Document<'static> {
    let within = u32::try_from(item.referenced.line()).unwrap_or(1).max(1) - 1;
    document(Cow::Owned(item.value.to_string()), line + within, true)
}
