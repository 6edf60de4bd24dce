//! The command line of kube-proxy, parsed as pflag does.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};

use crate::fields::Use;
use crate::flag::Flag;
use crate::notice::{Errors, Notice};
use crate::value::{Kind, Value};

/// The flags on the command line with their values; of a repeated flag the last value, or all items of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given(Vec<(&'static str, Value)>);

impl Given {
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// The value of a text flag, unless it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    pub fn boolean(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Boolean(true)))
    }

    pub(crate) fn flags(&self) -> impl Iterator<Item = (&'static Flag, &Value)> {
        self.0.iter().filter_map(|(name, value)| Some((Flag::named(name)?, value)))
    }

    /// Every flag with its effective value.
    pub fn effective(&self) -> Vec<(String, String)> {
        let value = |flag: &Flag| self.value(flag.name).cloned().unwrap_or_else(|| flag.default_value()).to_text();
        Flag::all().map(|flag| (flag.name.to_owned(), value(flag))).collect()
    }

    /// Notices for flags without effect.
    pub(crate) fn without_effect(&self) -> Vec<Notice> {
        let without_effect = self.flags().filter_map(|(flag, value)| match flag.used() {
            Use::None(reason) if *value != flag.default_value() || flag.field().is_none() => {
                Some(Notice::info(format!("--{} has no effect: {reason}", flag.name)))
            }
            _ => None,
        });
        without_effect.collect()
    }

    /// For tests and other front ends: names with their texts.
    pub fn new(texts: &[(&str, &str)]) -> Result<Self, Errors> {
        let mut given = Self::default();
        for (name, text) in texts {
            let flag = Flag::named(name).ok_or_else(|| Errors::one(format!("unknown flag --{name}")))?;
            let value = parsed(flag, text).map_err(Errors::one)?;
            given.add(flag.name, value);
        }
        Ok(given)
    }

    pub(crate) fn of(values: impl Iterator<Item = (&'static str, Value)>) -> Self {
        Self(values.collect())
    }

    fn add(&mut self, name: &'static str, value: Value) {
        match self.0.iter_mut().find(|(given, _)| *given == name) {
            Some((_, before)) => *before = before.clone().followed_by(value),
            None => self.0.push((name, value)),
        }
    }
}

fn parsed(flag: &Flag, text: &str) -> Result<Value, String> {
    Value::parse(flag.kind(), text)
}

/// All flags of kube-proxy, to be flattened into a command.
#[derive(Clone, Debug, Default)]
pub struct KubeProxyFlags(pub Given);

/// The flags of kube-proxy that affect traffic, for the read-only commands.
#[derive(Clone, Debug, Default)]
pub struct TrafficFlags(pub Given);

const TRAFFIC_FLAGS: [&str; 14] = [
    "config",
    "hostname-override",
    "proxy-mode",
    "detect-local-mode",
    "cluster-cidr",
    "pod-bridge-interface",
    "pod-interface-name-prefix",
    "nodeport-addresses",
    "bind-address",
    "iptables-localhost-nodeports",
    "iptables-masquerade-bit",
    "masquerade-all",
    "ipvs-scheduler",
    "feature-gates",
];

fn traffic_flags() -> impl Iterator<Item = &'static Flag> {
    TRAFFIC_FLAGS.into_iter().filter_map(Flag::named)
}

/// Those of the flags that are on the command line.
fn given(matches: &ArgMatches, flags: impl Iterator<Item = &'static Flag>) -> Given {
    let mut given = Given::default();
    for flag in flags.filter(|flag| matches.value_source(flag.name) == Some(ValueSource::CommandLine)) {
        let values = matches.get_many::<Value>(flag.name).unwrap_or_default();
        values.cloned().for_each(|value| given.add(flag.name, value));
    }
    given
}

macro_rules! flags_of_table {
    ($flags:ty, $table:expr) => {
        impl Args for $flags {
            fn augment_args(command: Command) -> Command {
                command.args($table.map(argument))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $flags {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
                Ok(Self(given(matches, $table)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}

flags_of_table!(KubeProxyFlags, Flag::all());
flags_of_table!(TrafficFlags, traffic_flags());

fn argument(flag: &'static Flag) -> Arg {
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .action(ArgAction::Append)
        .value_parser(move |text: &str| parsed(flag, text))
        .hide(flag.is_hidden)
        .help(flag_help(flag));
    let argument = match flag.short {
        Some(letter) => argument.short(letter),
        None => argument,
    };
    match (flag.name, flag.kind()) {
        ("version", _) | (_, Kind::Boolean) => {
            argument.num_args(0..=1).require_equals(true).default_missing_value("true").value_name("true|false")
        }
        ("proxy-mode", kind) => argument.visible_alias("mode").value_name(placeholder(kind)).allow_hyphen_values(true),
        (_, kind) => argument.num_args(1).value_name(placeholder(kind)).allow_hyphen_values(true),
    }
}

fn flag_help(flag: &Flag) -> String {
    let text = match flag.used() {
        Use::Works(text) => capitalised(text),
        Use::None(reason) => format!("No effect: {reason}"),
    };
    match flag.default_text() {
        "" | "false" => text,
        default => format!("{text} [default: {default}]"),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn placeholder(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "TEXT",
        Kind::Boolean => "true|false",
        Kind::Integer | Kind::Number => "NUMBER",
        Kind::Duration => "TIME",
        Kind::List => "LIST",
        Kind::Gates => "NAME=true|false,...",
        Kind::Patterns => "PATTERN=N,...",
        Kind::Quantity => "BYTES",
    }
}

/// Flag names may use `_` for `-`; a single dash introduces one-letter flags only.
pub fn normalised(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    arguments.into_iter().map(normalised_one).collect()
}

fn normalised_one(argument: OsString) -> OsString {
    let Some(text) = argument.to_str().filter(|text| text.starts_with("--")) else { return argument };
    let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let name = name.replace('_', "-");
    match value {
        Some(value) => format!("{name}={value}").into(),
        None => name.into(),
    }
}
