//! Flags of the live table, of shell completions and of manual pages.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use portolan_config::parse_duration;
use portolan_top::Column;

use super::{ControlFlags, OutputFlags};

#[derive(Args, Clone, Debug)]
pub struct TopFlags {
    /// Only Services whose name, or whose reason for a refusal, has all of these words
    #[arg(value_name = "WORD")]
    pub filter: Vec<String>,
    /// The column to sort by
    #[arg(long, value_name = "COLUMN", default_value = "connections", value_parser = column())]
    pub sort: Column,
    /// The time between two readings
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub interval: Duration,
    /// Print one reading and exit; --output json implies it
    #[arg(long)]
    pub once: bool,
    #[command(flatten)]
    pub control: ControlFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

fn column() -> impl TypedValueParser<Value = Column> {
    let names = PossibleValuesParser::new(Column::ALL.map(Column::name));
    names.try_map(|name| Column::named(&name).ok_or_else(|| format!("{name} is not a column")))
}

#[derive(Args, Clone, Copy, Debug)]
pub struct CompletionsFlags {
    /// The shell
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Args, Clone, Debug)]
pub struct ManFlags {
    /// Write the pages of all commands into this directory, instead of printing the page of the program
    #[arg(long, value_name = "DIRECTORY")]
    pub directory: Option<PathBuf>,
}
