//! Flags that modes add to the command line, from the registry.

use clap::builder::BoolishValueParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use portolan_config::parse_duration;
use portolan_dataplane::{FlagKind, ModeFlag, OptionValue, Options, modes};
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct ModeFlags(pub Options);

fn flags() -> impl Iterator<Item = &'static ModeFlag> {
    modes::ALL.iter().flat_map(|mode| mode.flags())
}

fn argument(flag: &'static ModeFlag) -> Arg {
    let argument = Arg::new(flag.name).long(flag.name).default_value(flag.default).help(flag.help);
    match flag.kind {
        FlagKind::Boolean => {
            let argument = argument.value_name("BOOLEAN").value_parser(BoolishValueParser::new());
            argument.num_args(0..=1).require_equals(true).default_missing_value("true")
        }
        FlagKind::Duration => argument.value_name("TIME").value_parser(parse_duration),
        FlagKind::Path => argument.value_name("PATH").hide_default_value(flag.default.is_empty()),
    }
}

impl Args for ModeFlags {
    fn augment_args(command: Command) -> Command {
        command.args(flags().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ModeFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Options::default();
        for flag in flags() {
            let value = match flag.kind {
                FlagKind::Boolean => matches.get_one::<bool>(flag.name).map(|is_set| OptionValue::Boolean(*is_set)),
                FlagKind::Duration => matches.get_one::<Duration>(flag.name).map(|time| OptionValue::Duration(*time)),
                FlagKind::Path => matches.get_one::<String>(flag.name).map(|path| OptionValue::Text(path.clone())),
            };
            value.into_iter().for_each(|value| options.set(flag.name, value));
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
