//! Flags that modes add to the command line, from the registry.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use portolan_config::parse_duration;
use portolan_dataplane::{ModeFlag, OptionValue, Options, modes};
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct ModeFlags(pub Options);

fn flags() -> impl Iterator<Item = &'static ModeFlag> {
    modes::ALL.iter().flat_map(|mode| mode.flags())
}

fn argument(flag: &'static ModeFlag) -> Arg {
    Arg::new(flag.name)
        .long(flag.name)
        .value_name("TIME")
        .value_parser(parse_duration)
        .default_value(flag.default)
        .help(flag.help)
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
            if let Some(time) = matches.get_one::<Duration>(flag.name) {
                options.set(flag.name, OptionValue::Duration(*time));
            }
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
