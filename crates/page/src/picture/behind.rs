//! The fields of objects behind a part, and their lines in files.

use std::path::PathBuf;

use portolan_model::ServiceName;
use portolan_source::{LocatedObject, WantedField, WantedObject, locate};
use serde::Serialize;

use super::parts::ServiceAnswer;

/// A field of an object, and where a file has it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Behind {
    pub object: String,
    pub field: String,
    pub value: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub text: Option<String>,
    /// Where to look: the first of these objects that the files have.
    #[serde(skip)]
    places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectName {
    kind: &'static str,
    namespace: String,
    name: String,
}

#[derive(Clone, Debug)]
struct Place {
    object: ObjectName,
    path: String,
    containing: Option<String>,
}

impl ObjectName {
    pub(super) fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn text(&self) -> String {
        format!("{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Behind {
    pub(super) fn field(object: ObjectName, field: &str, value: Option<String>) -> Self {
        let places = vec![Place { path: field.to_owned(), containing: None, object: object.clone() }];
        Self { object: object.text(), field: field.to_owned(), value, places, ..Self::default() }
    }

    /// A field that contains a text, which is searched from a path on.
    pub(super) fn text(object: ObjectName, path: &str, field: &str, text: &str) -> Self {
        let containing = Some(text.to_owned());
        let places = vec![Place { path: path.to_owned(), containing: containing.clone(), object: object.clone() }];
        Self { object: object.text(), field: field.to_owned(), value: containing, places, ..Self::default() }
    }

    pub(super) fn with_value(self, value: String) -> Self {
        Self { value: Some(value), ..self }
    }

    /// Files that do not have the first object may have another one that it was made from.
    pub(super) fn or_in(mut self, object: Option<ObjectName>, path: &str) -> Self {
        let containing = self.places.first().and_then(|place| place.containing.clone());
        self.places.extend(object.map(|object| Place { path: path.to_owned(), containing, object }));
        self
    }

    /// A setting of the program.
    pub(super) fn setting(flag: &str, value: &str) -> Self {
        let object = "the configuration of portolan proxy".to_owned();
        Self { object, field: flag.to_owned(), value: Some(value.to_owned()), ..Self::default() }
    }
}

/// Files are searched for at most so many objects.
const MOST_OBJECTS: usize = 200;

/// Adds the files and lines to all that is behind a picture.
pub(super) fn add_lines(paths: &[PathBuf], service: &ServiceName, answer: &mut ServiceAnswer) {
    let own = ObjectName::new("Service", &service.namespace, &service.name);
    let mut wanted = vec![WantedPlaces { object: own, fields: Vec::new() }];
    for behind in answer.behind_mut() {
        behind.places.iter().for_each(|place| add_wanted(&mut wanted, place));
    }
    let objects: Vec<WantedObject> = wanted.iter().map(WantedPlaces::object).collect();
    let found = locate(paths, &objects);
    if let Some(own) = &found[0] {
        (answer.object.file, answer.object.line) = (Some(own.file.display().to_string()), Some(own.line));
    }
    answer.behind_mut().for_each(|behind| fill(behind, &wanted, &found));
}

struct WantedPlaces {
    object: ObjectName,
    fields: Vec<WantedField>,
}

impl WantedPlaces {
    fn object(&self) -> WantedObject {
        let ObjectName { kind, namespace, name } = self.object.clone();
        WantedObject { kind: kind.to_owned(), namespace, name, fields: self.fields.clone() }
    }
}

fn field(place: &Place) -> WantedField {
    WantedField { path: place.path.clone(), containing: place.containing.clone() }
}

fn add_wanted(wanted: &mut Vec<WantedPlaces>, place: &Place) {
    let field = field(place);
    match wanted.iter().position(|it| it.object == place.object) {
        Some(index) if wanted[index].fields.contains(&field) => {}
        Some(index) => wanted[index].fields.push(field),
        None if wanted.len() < MOST_OBJECTS => {
            wanted.push(WantedPlaces { object: place.object.clone(), fields: vec![field] });
        }
        None => {}
    }
}

fn fill(behind: &mut Behind, wanted: &[WantedPlaces], found: &[Option<LocatedObject>]) {
    for place in &behind.places {
        let Some(index) = wanted.iter().position(|it| it.object == place.object) else { continue };
        let Some(located) = &found[index] else { continue };
        let Some(number) = wanted[index].fields.iter().position(|it| *it == field(place)) else { continue };
        let (line, text) = located.fields[number].clone();
        (behind.file, behind.line, behind.text) = (Some(located.file.display().to_string()), Some(line), Some(text));
        behind.object = place.object.text();
        return;
    }
}
