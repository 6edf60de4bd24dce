//! DNS over TCP: any number of queries on one connection, each with a length prefix.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

use crate::resolve::{Client, Handled, Resolver};

/// Concurrent connections; more wait in the accept queue.
const MAX_CONNECTIONS: usize = 1000;
/// An idle connection is closed after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection whose client does not read its responses is closed after this time.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The backoff after an accept error, for example when the process is out of descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

pub(super) fn serve(listener: TcpListener, resolver: Arc<Resolver>, runtime: &Handle) -> io::Result<AbortHandle> {
    let _context = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener)?;
    Ok(runtime.spawn(accept_forever(listener, resolver)).abort_handle())
}

async fn accept_forever(listener: tokio::net::TcpListener, resolver: Arc<Resolver>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, client)) => {
                let resolver = resolver.clone();
                connections.spawn(async move {
                    _ = serve_connection(stream, client, &resolver).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!("accepting a connection: {error}");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(mut stream: TcpStream, address: SocketAddr, resolver: &Arc<Resolver>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let client = Client { address, is_tcp: true };
    let mut state = resolver.task_state();
    let (mut message, mut answer) = (Vec::new(), Vec::new());
    loop {
        timeout(IDLE_TIMEOUT, read(&mut stream, &mut message)).await??;
        match resolver.handle(&mut state, &message, client, &mut answer) {
            Handled::Answered => {}
            Handled::Ignored => return Ok(()),
            Handled::Deferred(mut deferred) => answer = resolver.finish(&mut deferred).await,
        }
        let length = (answer.len() as u16).to_be_bytes();
        let whole = [&length[..], &answer].concat();
        timeout(WRITE_TIMEOUT, stream.write_all(&whole)).await??;
    }
}

async fn read(stream: &mut TcpStream, message: &mut Vec<u8>) -> io::Result<()> {
    let length = stream.read_u16().await?;
    message.resize(length.into(), 0);
    stream.read_exact(message).await?;
    Ok(())
}
