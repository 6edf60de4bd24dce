//! A page server on a configurable address that may change at runtime.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;

use tokio::runtime::Handle;

use crate::server::{Handler, ServeConnection, Serving, pages};
use crate::system::listen;

/// The address to listen on, and how a failure is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// `None` disables the server.
    pub address: Option<SocketAddr>,
    /// Whether a port that cannot be opened is an error, instead of being retried.
    pub must_succeed: bool,
}

/// Dropping it closes the port.
pub struct PageServer {
    name: &'static str,
    serve: ServeConnection,
    handle: Handle,
    current: Mutex<(Listen, Option<Serving>)>,
}

impl PageServer {
    pub(crate) fn new(name: &'static str, handler: Handler, handle: Handle) -> Self {
        Self::serving(name, pages(handler), handle)
    }

    /// A port whose connections are served by the caller; at most 128 of them at a time.
    pub fn serving(name: &'static str, serve: ServeConnection, handle: Handle) -> Self {
        Self { name, serve, handle, current: Mutex::default() }
    }

    /// Moves to another address; the same address has no effect.
    pub fn listen(&self, wanted: Listen) -> io::Result<()> {
        let mut current = self.current.lock().expect("the lock is not poisoned");
        if current.1.is_some() && current.0.address == wanted.address {
            return Ok(());
        }
        // The old port is closed first: the new address may be the same port on more addresses.
        *current = (wanted, None);
        current.1 = wanted.address.map(|address| self.open(address, wanted.must_succeed)).transpose()?;
        Ok(())
    }

    pub fn close(&self) {
        *self.current.lock().expect("the lock is not poisoned") = Default::default();
    }

    pub fn address(&self) -> Option<SocketAddr> {
        self.current.lock().expect("the lock is not poisoned").1.as_ref().and_then(Serving::address)
    }

    fn open(&self, address: SocketAddr, must_succeed: bool) -> io::Result<Serving> {
        let name = self.name;
        let open = move || open(name, address);
        match open() {
            Ok(listener) => Serving::start(listener, self.serve.clone(), &self.handle),
            Err(error) if must_succeed => Err(error),
            Err(error) => {
                tracing::error!("{error}; retrying in the background");
                Ok(Serving::start_later(Box::new(open), self.serve.clone(), &self.handle))
            }
        }
    }
}

fn open(name: &str, address: SocketAddr) -> io::Result<TcpListener> {
    listen::open_for_both(address)
        .map_err(|error| io::Error::new(error.kind(), format!("opening {address} for {name}: {error}")))
}
