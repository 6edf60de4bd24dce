//! A connection to the API server: TCP to the first of its addresses that answers, then TLS, then HTTP/1.1.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::credentials::{Login, host};
use super::error::chain;
use crate::system::keepalive::probe;

/// For all addresses together, and for TLS after that.
const CONNECT: Duration = Duration::from_secs(30);

/// How long one address may take before the next is tried beside it, as RFC 8305 recommends.
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// What a connection may hold of an answer before it is taken. More would stay in memory for as long as the watch.
const BUFFER: usize = 64 << 10;

/// HTTP as hyper speaks it: the connection itself is a task, which ends when the server or the last user of it goes.
pub(super) async fn dial(login: &Login, keepalive: Duration) -> Result<SendRequest<Full<Bytes>>, String> {
    let work = async {
        let socket = connect(&login.server).await?;
        probe(&socket, keepalive).map_err(|error| error.to_string())?;
        match &login.tls {
            None => speak(socket).await,
            Some((config, name)) => {
                let secured = TlsConnector::from(config.clone()).connect(name.clone(), socket).await;
                speak(secured.map_err(|error| format!("TLS: {}", chain(&error)))?).await
            }
        }
    };
    let answer = tokio::time::timeout(CONNECT, work).await.unwrap_or_else(|_| Err(format!("no answer in {CONNECT:?}")));
    answer.map_err(|reason| format!("cannot connect to {}: {reason}", login.server))
}

async fn connect(server: &http::Uri) -> Result<TcpStream, String> {
    let default = if server.scheme_str() == Some("https") { 443 } else { 80 };
    let target = (host(server), server.port_u16().unwrap_or(default));
    let found = tokio::net::lookup_host(target).await.map_err(|error| format!("{}: {error}", target.0))?;
    let addresses: Vec<SocketAddr> = found.collect();
    let mut attempts = JoinSet::new();
    let mut last = format!("{} has no address", target.0);
    for address in alternating(addresses) {
        attempts.spawn(async move { (address, TcpStream::connect(address).await) });
        if let Ok(done) = tokio::time::timeout(NEXT_ADDRESS, first(&mut attempts)).await {
            match done {
                Ok(socket) => return Ok(socket),
                Err(reason) => last = reason,
            }
        }
    }
    if attempts.is_empty() { Err(last) } else { first(&mut attempts).await }
}

/// The families take turns, beginning with the one that the resolver prefers.
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let preferred = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (these, those): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|it| it.is_ipv6() == preferred);
    let longest = these.len().max(those.len());
    (0..longest).flat_map(|index| [these.get(index), those.get(index)].into_iter().flatten().copied()).collect()
}

/// The first attempt that succeeds, or the last failure once all have failed.
async fn first(attempts: &mut JoinSet<(SocketAddr, io::Result<TcpStream>)>) -> Result<TcpStream, String> {
    let mut last = String::new();
    while let Some(done) = attempts.join_next().await {
        match done {
            Ok((_, Ok(socket))) => return Ok(socket),
            Ok((address, Err(error))) => last = format!("{address}: {error}"),
            Err(failure) => last = failure.to_string(),
        }
    }
    Err(last)
}

async fn speak<S>(socket: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let http = http1::Builder::new().max_buf_size(BUFFER).handshake(TokioIo::new(socket)).await;
    let (sender, connection) = http.map_err(|error| chain(&error))?;
    // What ends it reaches the one who waits for the answer.
    tokio::spawn(async move { _ = connection.with_upgrades().await });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_take_turns() {
        let addresses = |text: &str| text.split(' ').map(|it| it.parse().expect("an address")).collect::<Vec<_>>();
        let found = addresses("[2001:db8::1]:1 [2001:db8::2]:1 [2001:db8::3]:1 192.0.2.1:1");
        let tried = addresses("[2001:db8::1]:1 192.0.2.1:1 [2001:db8::2]:1 [2001:db8::3]:1");
        assert_eq!(alternating(found), tried);
        assert_eq!(alternating(Vec::new()), []);
    }
}
