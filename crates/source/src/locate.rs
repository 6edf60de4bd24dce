//! Where the manifests say something: the file, the line and its text.
//!
//! Lines are looked up when they are wanted. The snapshot does not keep them.

use std::path::{Path, PathBuf};

use portolan_yaml::Tree;

use crate::files;
use crate::yaml::document::Reader;
use crate::yaml::split::split;

/// An object whose lines are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedObject {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub fields: Vec<WantedField>,
}

/// A field such as `spec.ports[0].port`, or the first line from there on that contains a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedField {
    pub path: String,
    pub containing: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedObject {
    pub file: PathBuf,
    pub line: u32,
    /// For each wanted field, the line of it or of the nearest field around it, and its text.
    pub fields: Vec<(u32, String)>,
}

/// The longest text of a line.
const LONGEST_LINE: usize = 200;

/// For each wanted object, where it is. All files are read once.
pub fn locate(paths: &[PathBuf], wanted: &[WantedObject]) -> Vec<Option<LocatedObject>> {
    let mut found = vec![None; wanted.len()];
    for ((_, file), _) in files::list(paths).files {
        if found.iter().all(Option::is_some) {
            break;
        }
        // A pipe was read at the start, and has no content any more.
        let Ok(text) = files::read(&file, false) else { continue };
        let is_named = |object: &WantedObject| text.contains(&object.name);
        if wanted.iter().zip(&found).any(|(object, place)| place.is_none() && is_named(object)) {
            locate_in(&file, &text, wanted, &mut found);
        }
    }
    found
}

fn locate_in(file: &Path, text: &str, wanted: &[WantedObject], found: &mut [Option<LocatedObject>]) {
    let lines: Vec<&str> = text.lines().collect();
    for document in split(text) {
        for (object, place) in wanted.iter().zip(found.iter_mut()) {
            // Only documents that mention the name are parsed.
            if place.is_none() && document.text(text).contains(&object.name) {
                *place = located(file, &lines, &document.reader(text, &Tree::default()), object);
            }
        }
    }
}

fn located(file: &Path, lines: &[&str], reader: &Reader<'_>, object: &WantedObject) -> Option<LocatedObject> {
    let header = reader.header().ok()??;
    let namespace = Some(header.metadata.namespace.as_str()).filter(|it| !it.is_empty()).unwrap_or("default");
    let is_namespaced = !object.namespace.is_empty();
    if header.kind != object.kind
        || header.metadata.name != object.name
        || is_namespaced && namespace != object.namespace
    {
        return None;
    }
    let line = |field: &WantedField| {
        let start = reader.line_of(&field.path);
        let number = field.containing.as_deref().map_or(start, |text| line_with(lines, start, text));
        (number, shown(lines.get(number as usize - 1).unwrap_or(&"")))
    };
    Some(LocatedObject { file: file.to_owned(), line: reader.line(), fields: object.fields.iter().map(line).collect() })
}

/// The first line from `start` on that contains the text, within the document; otherwise `start` itself.
fn line_with(lines: &[&str], start: u32, text: &str) -> u32 {
    let rest = lines.iter().enumerate().skip(start as usize - 1);
    let mut document = rest.take_while(|(number, line)| *number < start as usize || !line.starts_with("---"));
    document.find(|(_, line)| has_word(line, text)).map_or(start, |(number, _)| number as u32 + 1)
}

/// `10.0.0.1` is not in `10.0.0.11`.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | ':');
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back().is_some_and(is_part);
        let after = line[start + word.len()..].chars().next().is_some_and(is_part);
        !before && !after
    })
}

fn shown(line: &str) -> String {
    line.chars().take(LONGEST_LINE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# two Services
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  externalTrafficPolicy: Local
  ports:
  - port: 80
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: other}
endpoints:
- {addresses: [10.0.0.11]}
- {addresses: [10.0.0.1]}
";

    fn wanted(kind: &str, namespace: &str, name: &str, path: &str, containing: Option<&str>) -> WantedObject {
        let field = WantedField { path: path.into(), containing: containing.map(Into::into) };
        WantedObject { kind: kind.into(), namespace: namespace.into(), name: name.into(), fields: vec![field] }
    }

    #[test]
    fn fields_and_texts_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("web.yaml");
        std::fs::write(&file, TEXT).unwrap();
        let objects = [
            wanted("Service", "default", "web", "spec.externalTrafficPolicy", None),
            wanted("Service", "other", "web", "spec", None),
            wanted("EndpointSlice", "other", "web-1", "endpoints", Some("10.0.0.1")),
            wanted("Service", "default", "web", "spec.ports[0].nodePort", None),
        ];
        let found = locate(&[folder.path().into()], &objects);
        let lines: Vec<_> = found.iter().map(|it| it.as_ref().map(|it| it.fields[0].clone())).collect();
        assert_eq!(lines[0], Some((6, "  externalTrafficPolicy: Local".into())));
        assert_eq!(lines[1], None);
        assert_eq!(lines[2], Some((15, "- {addresses: [10.0.0.1]}".into())));
        assert_eq!(lines[3], Some((8, "  - port: 80".into())));
        assert_eq!(found[0].as_ref().map(|it| (it.line, it.file.clone())), Some((2, file)));
    }
}
