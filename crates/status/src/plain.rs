//! Plain text pages for parts of the program that are unrelated to kube-proxy.

use std::io;
use std::sync::Arc;

use http::StatusCode;
use tokio::runtime::Handle;

use crate::metrics::CONTENT_TYPE;
use crate::page_server::{Listen, PageServer};
use crate::server::{Handler, answer, not_found};

/// The status and text of a path; `None` if there is no such page.
pub type Respond = Arc<dyn Fn(&str) -> Option<(u16, String)> + Send + Sync>;

/// Dropping it closes the port.
pub struct PlainServer(#[expect(dead_code, reason = "it serves until it is dropped")] PageServer);

impl PlainServer {
    pub fn start(name: &'static str, listen: Listen, respond: Respond, handle: &Handle) -> io::Result<Self> {
        let server = PageServer::new(name, handler(respond), handle.clone());
        server.listen(listen)?;
        Ok(Self(server))
    }
}

fn handler(respond: Respond) -> Handler {
    Arc::new(move |request| {
        let answer = match respond(request.uri().path()) {
            Some((status, body)) => answer(StatusCode::from_u16(status).unwrap_or(StatusCode::OK), CONTENT_TYPE, body),
            None => not_found(),
        };
        Box::pin(std::future::ready(answer))
    })
}
