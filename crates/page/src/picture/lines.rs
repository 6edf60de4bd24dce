//! The lines in files of what is behind a picture.

use std::path::PathBuf;

use portolan_model::ServiceName;
use portolan_source::{LocatedObject, WantedField, WantedObject, locate};

use super::behind::{Behind, ObjectName, Place};
use super::parts::ServiceAnswer;

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
