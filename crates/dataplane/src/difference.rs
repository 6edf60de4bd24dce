//! The difference between two sets of objects, as text, for answers about any mode.

use crate::{Change, Dataplane};

/// The difference between two sets of objects, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The number of desired objects.
    pub wanted: usize,
    pub objects: Vec<ObjectDifference>,
    /// One line per object, `-` and `+`.
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDifference {
    pub object: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl Difference {
    pub(crate) fn new<D: Dataplane>(wanted: usize, change: &Change<D>) -> Self {
        let added = change.added.iter().map(|(key, value)| {
            let before = change.removed.get(key).map(ToString::to_string);
            ObjectDifference { object: key.to_string(), before, after: Some(value.to_string()) }
        });
        let removed = change.removed.iter().filter(|(key, _)| !change.added.contains_key(key));
        let removed = removed.map(|(key, value)| ObjectDifference {
            object: key.to_string(),
            before: Some(value.to_string()),
            after: None,
        });
        Self { wanted, objects: added.chain(removed).collect(), text: change.to_string() }
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}
