//! An HTTP/1.1 server for one port. Clients are not trusted.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use crate::system::listen;

/// Per port; beyond that, the oldest connection is closed.
const MAX_CONNECTIONS: usize = 128;
/// A connection without a complete request header is closed after this time.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection serves one request, within this time; a client that does not read the response is disconnected.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The backoff after an accept error, for example when the process is out of descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// The delay before a retry to open a port.
const OPEN_RETRY: Duration = Duration::from_secs(5);

/// Opens a port, with an error that names it.
pub(crate) type Open = Box<dyn Fn() -> io::Result<TcpListener> + Send + Sync>;
pub(crate) type Answer = Response<Full<Bytes>>;
pub(crate) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;
/// Serves one connection to its end.
pub type ServeConnection = Arc<dyn Fn(TcpStream) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// A port that is served, or will be. Dropping it closes the port and all its connections.
#[derive(Debug)]
pub(crate) struct Serving {
    task: AbortHandle,
    listener: Arc<OnceLock<TcpListener>>,
}

impl Serving {
    /// Serves a non-blocking listener.
    pub(crate) fn start(listener: TcpListener, serve: ServeConnection, handle: &Handle) -> io::Result<Self> {
        let shared = Arc::new(OnceLock::from(listener.try_clone()?));
        let _context = handle.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let task = handle.spawn(accept_forever(listener, serve)).abort_handle();
        Ok(Self { task, listener: shared })
    }

    /// Retries to open the port until it succeeds, and then serves it.
    pub(crate) fn start_later(open: Open, serve: ServeConnection, handle: &Handle) -> Self {
        let listener = Arc::new(OnceLock::new());
        let shared = listener.clone();
        let task = handle.spawn(async move {
            let listener = open_with_retries(&open, &shared).await;
            accept_forever(listener, serve).await;
        });
        Self { task: task.abort_handle(), listener }
    }

    /// `None` until the port is open.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.get()?.local_addr().ok()
    }
}

impl Drop for Serving {
    /// Closes the port at once: the task releases it only when it is polled, and the next owner may need it sooner.
    fn drop(&mut self) {
        self.task.abort();
        if let Some(listener) = self.listener.get() {
            listen::close(listener);
        }
    }
}

async fn open_with_retries(open: &Open, shared: &OnceLock<TcpListener>) -> tokio::net::TcpListener {
    loop {
        tokio::time::sleep(OPEN_RETRY).await;
        let opened = open().and_then(|listener| {
            let clone = listener.try_clone()?;
            Ok((clone, tokio::net::TcpListener::from_std(listener)?))
        });
        match opened {
            Ok((clone, listener)) => {
                _ = shared.set(clone);
                return listener;
            }
            Err(error) => tracing::error!("{error}; retrying in {OPEN_RETRY:?}"),
        }
    }
}

async fn accept_forever(listener: tokio::net::TcpListener, serve: ServeConnection) {
    let mut connections = Connections::default();
    loop {
        tokio::select! {
            Some(_) = connections.tasks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connections.admit(serve(stream)),
                Err(error) => {
                    tracing::debug!("accepting a connection: {error}");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            },
        }
    }
}

/// Dropping them closes the connections.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    by_age: VecDeque<AbortHandle>,
}

impl Connections {
    /// A well-behaved client is served quickly. With too many connections, the oldest is most likely a stuck one.
    fn admit(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        if self.by_age.len() >= MAX_CONNECTIONS {
            self.by_age.retain(|connection| !connection.is_finished());
        }
        if self.by_age.len() >= MAX_CONNECTIONS {
            self.by_age.pop_front().iter().for_each(AbortHandle::abort);
        }
        self.by_age.push_back(self.tasks.spawn(connection));
    }
}

/// One page for each connection.
pub(crate) fn pages(handler: Handler) -> ServeConnection {
    Arc::new(move |stream| Box::pin(serve_connection(stream, handler.clone())))
}

async fn serve_connection(stream: TcpStream, handler: Handler) {
    let service = service_fn(move |request| {
        let answer = handler(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!("serving a status page: {error}"),
        Err(_) => tracing::debug!("a client of a status page timed out"),
    }
}

pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

pub(crate) fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    answer(status, "text/plain; charset=utf-8", body)
}

pub(crate) fn not_found() -> Answer {
    text(StatusCode::NOT_FOUND, "404 page not found\n")
}
