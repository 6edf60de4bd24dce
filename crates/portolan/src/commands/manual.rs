//! Shell completions and manual pages, from the table of flags that `--help` prints.

use std::path::Path;

use anyhow::Context;
use clap::{Command, CommandFactory};
use clap_mangen::Man;

use super::write_out;
use crate::exit::SUCCESS;
use crate::flags::{Cli, CompletionsFlags, ManFlags, Shell};

pub fn completions(flags: &CompletionsFlags) -> anyhow::Result<u8> {
    let shell = match flags.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut documented(), "portolan", &mut script);
    write_out(&String::from_utf8(script).context("writing the completions")?)?;
    Ok(SUCCESS)
}

/// The command line without commands that are for the program itself.
fn documented() -> Command {
    let whole = Cli::command();
    let about = whole.get_about().cloned().unwrap_or_default();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("portolan").version(env!("CARGO_PKG_VERSION")).about(about).subcommands(commands)
}

pub fn man(flags: &ManFlags) -> anyhow::Result<u8> {
    let mut program = documented();
    program.build();
    let Some(directory) = &flags.directory else {
        write_out(&(page(program)? + ADDITION))?;
        return Ok(SUCCESS);
    };
    std::fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        // As `git log` has the page git-log.
        write_page(directory, &format!("portolan-{}", command.get_name()), &page(command.clone())?)?;
    }
    write_page(directory, "portolan", &(page(program)? + ADDITION))?;
    Ok(SUCCESS)
}

/// What `--help` does not say.
const ADDITION: &str = r#".SH EXIT STATUS
0 on success; 1 if a command that compares has found a difference, and for a failure of
.BR portolan-proxy (1);
2 for any other failure.
.SH FILES
.TP
.I /run/portolan/portolan.sock
The control socket of the running daemon, for root alone.
.TP
.I /var/lib/portolan
The addresses of Services from manifests.
.TP
.I /etc/portolan
The manifests of the systemd unit.
"#;

fn write_page(directory: &Path, name: &str, page: &str) -> anyhow::Result<()> {
    let path = directory.join(format!("{name}.1"));
    std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
}

fn page(command: Command) -> anyhow::Result<String> {
    let mut page = Vec::new();
    let manual = Man::new(command);
    manual.render(&mut page).context("writing the manual page")?;
    let page = String::from_utf8(page).context("writing the manual page")?;
    Ok(page.lines().map(|line| titled(line) + "\n").collect::<String>().chars().map(plain).collect())
}

/// An empty date must be quoted, or the version takes its place.
fn titled(line: &str) -> String {
    match line.strip_prefix(".TH ").and_then(|rest| rest.split_whitespace().next()) {
        Some(name) => format!(".TH {name} 1 \"\" \"portolan {}\" Portolan", env!("CARGO_PKG_VERSION")),
        None => line.to_owned(),
    }
}

/// Older formatters read ASCII alone.
fn plain(letter: char) -> String {
    if letter.is_ascii() { letter.to_string() } else { format!("\\[u{:04X}]", u32::from(letter)) }
}
