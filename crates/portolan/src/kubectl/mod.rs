//! `kubectl portolan`: the same questions as on a node, asked through the API server.
//!
//! | file | idea |
//! |---|---|
//! | `flags`, `invocation` | the commands with the flags of kubectl; what of a command line goes to the node |
//! | `access` | the kubeconfig, and which right is missing |
//! | `place` | the node that a question is about, and the pod of Portolan there |
//! | `question` | names of pods, looked up where the user is |
//! | `ask` | one command in one pod, with this process's own input and output |
//! | `terminal` | the terminal of the user as that of the command |
//! | `everywhere`, `tables` | one command on all nodes at once; the answers as one table |
//! | `manifests` | files of this machine for a command on a node |

mod access;
mod ask;
mod everywhere;
mod flags;
mod invocation;
mod manifests;
mod place;
mod question;
mod tables;
mod terminal;

use std::ffi::OsString;
use std::path::Path;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

use crate::exit::{FAILURE, SUCCESS};
use flags::command;
use invocation::Invocation;

/// kubectl starts `kubectl-NAME` for `kubectl NAME`.
pub(crate) fn is_plugin(arguments: &[OsString]) -> bool {
    let name = arguments.first().and_then(|path| Path::new(path).file_name());
    name.is_some_and(|name| name == "kubectl-portolan")
}

pub(crate) fn run(arguments: &[OsString]) -> anyhow::Result<u8> {
    let invocation = match command().try_get_matches_from(arguments).and_then(|matches| Invocation::read(&matches)) {
        Ok(invocation) => invocation,
        Err(error) => {
            let is_answer = error.exit_code() == 0;
            _ = error.print();
            return Ok(if is_answer { SUCCESS } else { FAILURE });
        }
    };
    // Threads inherit what is blocked, so that it comes before the first of them.
    let restore = invocation.wants_terminal().then(terminal::Restore::on_signals).transpose()?;
    runtime()?.block_on(async {
        let server = access::open(&invocation.access)?;
        match invocation.is_everywhere {
            true => everywhere::ask(server, &invocation).await,
            false => ask::ask(&server, &invocation, restore).await,
        }
    })
}

fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread().enable_all().build().context("starting the async runtime")
}
