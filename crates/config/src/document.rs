//! A configuration: the value of every field, and where it was set.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde_json::json;

use crate::fields::{Defaulting, FIELDS, Use};
use crate::lenient::parse_address;
use crate::mode::ConfiguredMode;
use crate::notice::Notice;
use crate::span::Span;
use crate::value::Value;
use crate::yaml;

/// Where a value was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Line(u32),
    Flag(&'static str),
}

/// The values that were set, with their places.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Values(BTreeMap<&'static str, (Value, Place)>);

impl Values {
    pub(crate) fn set(&mut self, path: &'static str, value: Value, place: Place) {
        self.0.insert(path, (value, place));
    }

    pub(crate) fn value(&self, path: &str) -> Option<&Value> {
        self.0.get(path).map(|(value, _)| value)
    }

    /// Removes a field, or all fields of a section.
    pub(crate) fn remove(&mut self, path: &str) {
        let below = format!("{path}.");
        self.0.retain(|it, _| *it != path && !it.starts_with(&below));
    }

    pub(crate) fn copy(&mut self, from: &str, to: &'static str) {
        if let Some(found) = self.0.get(from).cloned() {
            self.0.insert(to, found);
        }
    }
}

/// Every field with its value. The type of each value is that of the table of fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The file; empty if there are only flags.
    file: String,
    values: BTreeMap<&'static str, Value>,
    places: BTreeMap<&'static str, Place>,
}

impl Document {
    pub(crate) fn complete(file: &str, given: &Values, overriding: &[(&'static str, Value)]) -> Self {
        let mut document = Self { file: file.into(), values: BTreeMap::new(), places: BTreeMap::new() };
        for field in FIELDS {
            let default = || overriding.iter().find(|(path, _)| *path == field.path).map(|(_, value)| value.clone());
            let default = || default().unwrap_or_else(|| field.default_value());
            // A zero in the file means the default; a zero on the command line is kept.
            let is_void = |value: &Value| field.defaulting == Defaulting::Zero && value.is_zero();
            let counts = |(value, place): &&(Value, Place)| matches!(place, Place::Flag(_)) || !is_void(value);
            let value = match given.0.get(field.path).filter(counts) {
                Some((value, place)) => {
                    document.places.insert(field.path, *place);
                    value.clone()
                }
                None => default(),
            };
            document.values.insert(field.path, value);
        }
        document.apply_family();
        document.append_ports();
        document
    }

    /// The default addresses of the servers have the family of `bindAddress`.
    fn apply_family(&mut self) {
        let is_v6 = parse_address(self.text("bindAddress")).is_some_and(|address| address.is_ipv6());
        for (path, address) in [("healthzBindAddress", "[::]:10256"), ("metricsBindAddress", "[::1]:10249")] {
            if is_v6 && !self.is_given(path) {
                self.values.insert(path, Value::Text(address.into()));
            }
        }
    }

    /// An address without a port gets the default port.
    fn append_ports(&mut self) {
        for (path, port) in [("healthzBindAddress", 10256), ("metricsBindAddress", 10249)] {
            if let Some(address) = parse_address(self.text(path)) {
                self.values.insert(path, Value::Text(SocketAddr::new(address, port).to_string()));
            }
        }
    }

    pub(crate) fn replace(&mut self, path: &'static str, value: Value) {
        self.values.insert(path, value);
    }

    /// Whether the value was set explicitly.
    pub fn is_given(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    /// Where a value was set, for messages: the flag, or the file, line and field.
    pub fn place(&self, path: &str) -> String {
        match self.places.get(path) {
            Some(Place::Flag(name)) => format!("--{name}"),
            Some(Place::Line(line)) => format!("{}:{line}: {path}", self.file),
            None if self.file.is_empty() => path.into(),
            None => format!("{}: {path}", self.file),
        }
    }

    pub fn value(&self, path: &str) -> &Value {
        self.values.get(path).unwrap_or_else(|| panic!("{path} is not in the table of fields"))
    }

    pub fn text(&self, path: &str) -> &str {
        match self.value(path) {
            Value::Text(text) => text,
            other => panic!("{path} is not a string but {other:?}"),
        }
    }

    pub fn boolean(&self, path: &str) -> bool {
        matches!(self.value(path), Value::Boolean(true))
    }

    pub fn integer(&self, path: &str) -> i64 {
        match self.value(path) {
            Value::Integer(number) => *number,
            other => panic!("{path} is not an integer but {other:?}"),
        }
    }

    pub fn number(&self, path: &str) -> f64 {
        match self.value(path) {
            Value::Number(number) => *number,
            other => panic!("{path} is not a number but {other:?}"),
        }
    }

    pub fn span(&self, path: &str) -> Span {
        match self.value(path) {
            Value::Duration(span) => *span,
            other => panic!("{path} is not a duration but {other:?}"),
        }
    }

    pub fn list(&self, path: &str) -> &[String] {
        match self.value(path) {
            Value::List(items) => items,
            other => panic!("{path} is not a list but {other:?}"),
        }
    }

    pub fn gates(&self) -> &BTreeMap<String, bool> {
        match self.value("featureGates") {
            Value::Gates(gates) => gates,
            other => panic!("featureGates are not gates but {other:?}"),
        }
    }

    /// Verbosities by file, from `vmodule`.
    pub fn patterns(&self) -> &[(String, u8)] {
        match self.value("logging.vmodule") {
            Value::Patterns(patterns) => patterns,
            other => panic!("logging.vmodule are not patterns but {other:?}"),
        }
    }

    /// The requested mode; unknown words were rejected by the checks.
    pub fn mode(&self) -> ConfiguredMode {
        ConfiguredMode::parse(self.text("mode")).unwrap_or(ConfiguredMode::Unset)
    }

    /// The field in the section that applies to the mode, for example `iptables.syncPeriod`.
    pub fn of_mode(&self, name: &str) -> String {
        format!("{}.{name}", self.mode().section())
    }

    /// The bind address, unless it is unspecified.
    pub fn bind_address(&self) -> Option<IpAddr> {
        parse_address(self.text("bindAddress")).filter(|address| !address.is_unspecified())
    }

    /// Notices for fields that were set and have no effect.
    pub(crate) fn without_effect(&self) -> Vec<Notice> {
        let without_effect = FIELDS.iter().filter_map(|field| match (field.used, self.places.get(field.path)) {
            (Use::None(reason), Some(Place::Line(_))) if self.value(field.path) != &field.default_value() => {
                Some(Notice::info(format!("{} has no effect: {reason}", self.place(field.path))))
            }
            _ => None,
        });
        without_effect.collect()
    }

    /// As `v1alpha1`. Sync periods and masqueradeAll are written in the section of the mode only, as in kube-proxy.
    pub fn to_json(&self) -> serde_json::Value {
        let mut root = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
        });
        for field in FIELDS {
            let value = self.written(field.path);
            if !(field.defaulting == Defaulting::Omitted && value.is_zero()) {
                put(&mut root, field.path, value.to_json());
            }
        }
        root
    }

    fn written(&self, path: &str) -> Value {
        let (section, name) = path.split_once('.').unwrap_or(("", path));
        let is_section = matches!(section, "iptables" | "ipvs" | "nftables");
        let is_of_other_mode = section != self.mode().section();
        match name {
            "syncPeriod" | "minSyncPeriod" if is_section && is_of_other_mode => Value::Duration(Span(0)),
            // kube-proxy clears this field when it reads it.
            "portRange" => Value::Text(String::new()),
            "masqueradeAll" if self.is_masquerade_of_other_mode(section) => Value::Boolean(false),
            _ => self.value(path).clone(),
        }
    }

    /// ipvs mode has no `masqueradeAll` of its own and uses that of iptables.
    fn is_masquerade_of_other_mode(&self, section: &str) -> bool {
        (section == "nftables") != (self.mode().section() == "nftables")
    }

    pub fn to_yaml(&self) -> String {
        yaml::write(&self.to_json())
    }
}

fn put(root: &mut serde_json::Value, path: &str, value: serde_json::Value) {
    let place = path.split('.').fold(root, |place, step| &mut place[step]);
    *place = value;
}
