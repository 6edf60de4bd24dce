//! The program: flags and file become settings, and settings become a running node.
//!
//! It is a library so that tests and benchmarks can use its parts; the binary only calls [`main`].
#![forbid(unsafe_code)]

pub mod commands;
pub mod control;
pub mod daemon;
pub mod dns;
mod exit;
pub mod flags;
pub mod host;
mod klog;
mod kubectl;
mod log;
mod log_file;
pub mod loopback;
pub mod node_setup;
mod offline;
mod page;
mod proxy;
pub mod settings;
#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use flags::{Cli, Command, KubeProxyCli};

/// Runs the command line; the result is the exit status.
pub fn main() -> u8 {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match run(&arguments) {
        Ok(status) => status,
        Err(error) => {
            let name = if kubectl::is_plugin(&arguments) { "kubectl portolan" } else { "portolan" };
            eprintln!("{name}: {error:#}");
            failure(&arguments)
        }
    }
}

fn run(arguments: &[OsString]) -> anyhow::Result<u8> {
    if kubectl::is_plugin(arguments) {
        return kubectl::run(arguments);
    }
    match parse(arguments) {
        Ok(command) => run_command(command),
        Err(error) => {
            let is_answer = error.exit_code() == 0;
            _ = error.print();
            Ok(if is_answer { exit::SUCCESS } else { failure(arguments) })
        }
    }
}

/// Under the name of kube-proxy, the program runs as `portolan proxy`.
fn parse(arguments: &[OsString]) -> Result<Command, clap::Error> {
    if is_kube_proxy(arguments) {
        let arguments = portolan_config::normalised(arguments.iter().cloned());
        return KubeProxyCli::try_parse_from(arguments).map(|cli| Command::Proxy(Box::new(cli.flags)));
    }
    let arguments =
        if is_proxy(arguments) { portolan_config::normalised(arguments.iter().cloned()) } else { arguments.to_vec() };
    Cli::try_parse_from(arguments).map(|cli| cli.command)
}

fn run_command(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Proxy(flags) => proxy::run(&flags),
        Command::Render(flags) => commands::render(&flags),
        Command::Explain(flags) => commands::explain(&flags),
        Command::Services(flags) => commands::services(&flags),
        Command::Connections(flags) => commands::connections(&flags),
        Command::Top(flags) => commands::top(&flags),
        Command::Page(flags) => commands::page(&flags),
        Command::Changes(flags) => commands::changes(&flags),
        Command::Verify(flags) => commands::verify(&flags),
        Command::Diff(flags) => commands::diff(&flags),
        Command::Shadow(flags) => commands::shadow(&flags),
        Command::Env(flags) => commands::environment(&flags),
        Command::Run(flags) => commands::run(&flags),
        Command::Dns(flags) => dns::run(&flags),
        Command::DnsWorker(flags) => dns::worker::run(&flags),
        Command::Attached(flags) => attached(&flags.command),
        Command::Cleanup(flags) => commands::cleanup(&flags),
        Command::Completions(flags) => commands::completions(&flags),
        Command::Man(flags) => commands::man(&flags),
    }
}

fn attached(command: &[OsString]) -> anyhow::Result<u8> {
    commands::end_with_connection()?;
    let arguments: Vec<OsString> = std::iter::once("portolan".into()).chain(command.iter().cloned()).collect();
    run(&arguments)
}

/// kube-proxy fails with 1; the commands that compare use 1 for "they differ".
fn failure(arguments: &[OsString]) -> u8 {
    if is_kube_proxy(arguments) || is_proxy(arguments) { exit::PROXY_FAILURE } else { exit::FAILURE }
}

fn is_kube_proxy(arguments: &[OsString]) -> bool {
    let name = arguments.first().and_then(|path| Path::new(path).file_name());
    name.is_some_and(|name| name == "kube-proxy" || name == "kube-proxy.exe")
}

fn is_proxy(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|command| command == "proxy")
}
