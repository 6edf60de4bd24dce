//! The page over HTTP. Clients are not trusted, and can only read.
//!
//! | file | idea |
//! |---|---|
//! | `access` | who may ask: the `Host` header, the token, requests of other sites |
//! | `response` | headers and bodies |
//! | `site` | from a request to an answer |
//! | `connection`, `lifetime` | one connection, with its limits of time |
//! | `thread` | an answer that may block, on a thread of its own |
//! | `hub` | streams of events, and the one task that feeds them while there are any |

mod access;
mod connection;
mod hub;
mod lifetime;
mod response;
mod site;
mod thread;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use portolan_status::{Listen, PageServer};
use tokio::runtime::Handle;

use crate::question::{Question, Reply};

pub use access::Access;
use hub::Hub;
use site::Site;

/// Answers a question. It may block.
pub type Ask = Arc<dyn Fn(&Question) -> Reply + Send + Sync>;

/// The server of the page. Dropping it closes the port.
pub struct Page(PageServer);

impl Page {
    /// Opens the port. One that must be open and is not is an error; otherwise it is tried again in the background.
    pub fn start(listen: Listen, access: Access, ask: Ask, handle: &Handle) -> io::Result<Self> {
        let hub = Hub::new(ask.clone(), handle.clone());
        let site = Arc::new(Site::new(access, ask, hub));
        let server = PageServer::serving("the page", connection::serve(site), handle.clone());
        server.listen(listen)?;
        Ok(Self(server))
    }

    /// `None` until the port is open.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.address()
    }

    pub fn listen(&self, listen: Listen) -> io::Result<()> {
        self.0.listen(listen)
    }

    pub fn close(&self) {
        self.0.close();
    }
}
