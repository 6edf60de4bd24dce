//! The fields of objects behind a part.

use serde::Serialize;

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
    pub(super) places: Vec<Place>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectName {
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) object: ObjectName,
    pub(super) path: String,
    pub(super) containing: Option<String>,
}

impl ObjectName {
    pub(super) fn new(kind: &'static str, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub(super) fn text(&self) -> String {
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
