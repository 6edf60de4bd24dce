//! The DNS process of a node: opens the ports, gives up all privileges, and only then reads from the network.

use std::net::SocketAddr;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use anyhow::Context;
use portolan_dns::Sockets;
use portolan_kernel::privileges::drop_privileges;
use portolan_model::Snapshot;

use super::facts::Change;
use super::frame::{read_change, write_number};
use crate::daemon::events::{self, Event};
use crate::daemon::runtime;
use crate::dns::serve::Names;
use crate::exit::SUCCESS;
use crate::flags::DnsWorkerFlags;
use crate::log::{self, LogFormat, LogSettings};
use crate::settings::DnsSettings;
use crate::system::{self, Stream};

/// What happens to the process.
enum Input {
    Change(u64, Box<Change>),
    Settings,
    End,
}

pub(crate) fn run(flags: &DnsWorkerFlags) -> anyhow::Result<u8> {
    portolan_kernel::share_one_heap();
    log::start(&LogSettings { format: LogFormat::Unset, verbosity: flags.verbosity, patterns: Vec::new() });
    let settings = read_settings(flags)?;
    let sockets = Sockets::open(&settings.listen).context("serving DNS")?;
    drop_privileges(flags.user.user, flags.user.group).context("giving up privileges")?;
    // The other end of standard input is the process that programs the rules.
    let parent = system::from_input()?;
    let runtime = runtime::start()?;
    let mut names = Names::start_on(settings, sockets, &runtime)?;
    let (sender, inputs) = sync_channel(4);
    watch_settings(flags, sender.clone())?;
    let changes = parent.try_clone()?;
    thread::Builder::new().name("facts".into()).spawn(move || read_changes(changes, &sender))?;
    let (mut parent, mut facts) = (parent, Snapshot::default());
    loop {
        match inputs.recv().unwrap_or(Input::End) {
            Input::Change(number, change) => {
                change.apply(&mut facts);
                names.publish(&facts);
                write_number(&mut parent, number).context("confirming names")?;
            }
            Input::Settings => match read_settings(flags) {
                Ok(settings) if settings != *names.settings() => names.use_settings(settings, &runtime),
                Ok(_) => {}
                Err(error) => {
                    tracing::error!("the new configuration of DNS is not used: {error:#}");
                    names.note_failed_reload();
                }
            },
            Input::End => return Ok(SUCCESS),
        }
    }
}

fn read_settings(flags: &DnsWorkerFlags) -> anyhow::Result<DnsSettings> {
    let listen: Vec<String> = flags.listen.iter().map(SocketAddr::to_string).collect();
    DnsSettings::beside_rules(&listen, flags.config.as_deref())?.context("no address to serve DNS at")
}

fn read_changes(mut parent: Stream, inputs: &SyncSender<Input>) {
    while let Ok(Some((number, change))) = read_change(&mut parent) {
        if inputs.send(Input::Change(number, Box::new(change))).is_err() {
            return;
        }
    }
    _ = inputs.send(Input::End);
}

fn watch_settings(flags: &DnsWorkerFlags, inputs: SyncSender<Input>) -> anyhow::Result<()> {
    let (sender, events) = sync_channel(1);
    events::watch_settings(flags.config.as_deref(), sender)?;
    let forward = move || {
        while let Ok(Event::Settings) = events.recv() {
            if inputs.send(Input::Settings).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("settings".into()).spawn(forward)?;
    Ok(())
}
