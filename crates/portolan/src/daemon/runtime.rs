//! Network I/O runs here, on one thread beside the run loop.

use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Handle};

/// Enough for the deepest decoding and for TLS; the default of 2 MB is more than the whole program needs.
const STACK: usize = 512 * 1024;
/// Threads for blocking work, such as reading counters; they end when idle.
const HELPERS: usize = 2;
const HELPERS_LIVE: Duration = Duration::from_secs(5);

pub(crate) fn start() -> anyhow::Result<Handle> {
    let mut builder = Builder::new_current_thread();
    builder.enable_all().thread_stack_size(STACK).max_blocking_threads(HELPERS).thread_keep_alive(HELPERS_LIVE);
    let runtime = builder.build().context("starting the async runtime")?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    std::thread::Builder::new().name("network".into()).stack_size(STACK).spawn(run).context("starting a thread")?;
    Ok(handle)
}
