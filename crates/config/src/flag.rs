//! A flag, and what it sets.

use crate::fields::{Field, Use};
use crate::value::{Kind, Value};

pub struct Flag {
    pub name: &'static str,
    pub target: Target,
    /// If it differs from that of the field.
    pub(crate) default: Option<&'static str>,
    pub short: Option<char>,
    /// Omitted from --help; deprecated.
    pub is_hidden: bool,
}

pub enum Target {
    /// Sets a field of the file; ignored if there is a file.
    Field(&'static str),
    /// Overrides a field of the file.
    Override(&'static str),
    /// Has no field in the file.
    Alone { kind: Kind, default: &'static str, used: Use, sample: &'static str },
}

impl Flag {
    pub fn field(&self) -> Option<&'static Field> {
        match self.target {
            Target::Field(path) | Target::Override(path) => Field::named(path),
            Target::Alone { .. } => None,
        }
    }

    pub fn kind(&self) -> Kind {
        match (&self.target, self.field()) {
            (Target::Alone { kind, .. }, _) => *kind,
            (_, field) => field.expect("a test looks up every flag's field").kind,
        }
    }

    pub fn default_text(&self) -> &'static str {
        match (&self.target, self.default, self.field()) {
            (Target::Alone { default, .. }, _, _) => default,
            (_, Some(default), _) => default,
            (_, None, field) => field.expect("a test looks up every flag's field").default,
        }
    }

    pub fn default_value(&self) -> Value {
        Value::parse(self.kind(), self.default_text()).expect("a test parses every default")
    }

    pub fn used(&self) -> Use {
        match (&self.target, self.field()) {
            (Target::Alone { used, .. }, _) => *used,
            (_, field) => field.expect("a test looks up every flag's field").used,
        }
    }

    pub fn sample(&self) -> &'static str {
        match (&self.target, self.field()) {
            (Target::Alone { sample, .. }, _) => sample,
            (_, field) => field.expect("a test looks up every flag's field").sample,
        }
    }
}

pub(crate) const fn sets(name: &'static str, path: &'static str) -> Flag {
    Flag { name, target: Target::Field(path), default: None, short: None, is_hidden: false }
}

pub(crate) const fn overrides(name: &'static str, path: &'static str) -> Flag {
    Flag { name, target: Target::Override(path), default: None, short: None, is_hidden: false }
}

pub(crate) const fn alone(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    used: Use,
    sample: &'static str,
) -> Flag {
    Flag { name, target: Target::Alone { kind, default, used, sample }, default: None, short: None, is_hidden: false }
}

pub(crate) const fn hidden(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    used: Use,
    sample: &'static str,
) -> Flag {
    Flag { is_hidden: true, ..alone(name, kind, default, used, sample) }
}
