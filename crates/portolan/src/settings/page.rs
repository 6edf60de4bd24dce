//! Where the page is served, and to whom.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, anyhow};
use portolan_page::{Access, Ask, Page};
use portolan_status::Listen;
use tokio::runtime::Handle;

#[derive(Clone, Debug)]
pub struct PageSettings {
    pub address: SocketAddr,
    access: Access,
}

impl PageSettings {
    /// `None` without an address. Beyond loopback, a token is required.
    pub(super) fn read(address: Option<SocketAddr>, token_file: Option<&Path>) -> anyhow::Result<Option<Self>> {
        address.map(|address| Self::new(address, token_file)).transpose()
    }

    pub(crate) fn new(address: SocketAddr, token_file: Option<&Path>) -> anyhow::Result<Self> {
        let read = |path: &Path| {
            std::fs::read_to_string(path)
                .with_context(|| format!("reading the token of the page from {}", path.display()))
        };
        let token = token_file.map(read).transpose()?;
        let name = super::node_name(None).unwrap_or_default();
        let access = Access::new(address, token.as_deref(), &[&name]).map_err(|mistake| anyhow!(mistake))?;
        Ok(Self { address, access })
    }

    /// A port that is taken is tried again: the rules do not depend on it.
    pub(crate) fn listen(&self) -> Listen {
        Listen { address: Some(self.address), must_succeed: false }
    }

    /// The other daemon has the port until it is replaced.
    pub(crate) fn open(&self, ask: Ask, handle: &Handle, is_replacing: bool) -> anyhow::Result<Page> {
        let listen = if is_replacing { Listen::default() } else { self.listen() };
        Ok(Page::start(listen, self.access.clone(), ask, handle)?)
    }

    /// One that must be open.
    pub(crate) fn open_now(&self, ask: Ask, handle: &Handle) -> anyhow::Result<Page> {
        let listen = Listen { must_succeed: true, ..self.listen() };
        Ok(Page::start(listen, self.access.clone(), ask, handle)?)
    }
}
