//! Serving one open port over HTTP/1.1, without trusting those who connect.

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

/// For each port; one more, and the oldest is sent away.
const MOST_CONNECTIONS: usize = 128;
/// Whoever does not say what it wants in this time is sent away.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection is for one request, and for so long at most; a client that does not read its answer loses it.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// The wait after the machine is out of sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The wait before a port that could not be opened is tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(5);

/// Opens a port, with an error that says which.
pub(crate) type Open = Box<dyn Fn() -> io::Result<TcpListener> + Send + Sync>;
pub(crate) type Answer = Response<Full<Bytes>>;
pub(crate) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(Request<Incoming>) -> Answering + Send + Sync>;

/// A port that is being served, or will be. Dropped, it closes at once, together with all its connections.
#[derive(Debug)]
pub(crate) struct Serving {
    task: AbortHandle,
    listener: Arc<OnceLock<TcpListener>>,
}

impl Serving {
    /// Serves a listener that does not block.
    pub(crate) fn start(listener: TcpListener, handler: Handler, handle: &Handle) -> io::Result<Self> {
        let shared = Arc::new(OnceLock::from(listener.try_clone()?));
        let _context = handle.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let task = handle.spawn(accept_forever(listener, handler)).abort_handle();
        Ok(Self { task, listener: shared })
    }

    /// Tries to open the port every now and then, for as long as it takes, and then serves it.
    pub(crate) fn start_later(open: Open, handler: Handler, handle: &Handle) -> Self {
        let listener = Arc::new(OnceLock::new());
        let shared = listener.clone();
        let task = handle.spawn(async move {
            let listener = open_at_last(&open, &shared).await;
            accept_forever(listener, handler).await;
        });
        Self { task: task.abort_handle(), listener }
    }

    /// `None` until the port is open.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.get()?.local_addr().ok()
    }
}

impl Drop for Serving {
    /// The task lets go of the port when its turn comes, and the next owner may not want to wait so long.
    fn drop(&mut self) {
        self.task.abort();
        if let Some(listener) = self.listener.get() {
            _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
        }
    }
}

async fn open_at_last(open: &Open, shared: &OnceLock<TcpListener>) -> tokio::net::TcpListener {
    loop {
        tokio::time::sleep(OPEN_AGAIN).await;
        let opened = open().and_then(|listener| {
            let clone = listener.try_clone()?;
            Ok((clone, tokio::net::TcpListener::from_std(listener)?))
        });
        match opened {
            Ok((clone, listener)) => {
                _ = shared.set(clone);
                return listener;
            }
            Err(error) => tracing::error!("{error}; trying again in {OPEN_AGAIN:?}"),
        }
    }
}

async fn accept_forever(listener: tokio::net::TcpListener, handler: Handler) {
    let mut connections = Connections::default();
    loop {
        tokio::select! {
            Some(_) = connections.tasks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => connections.admit(converse(stream, handler.clone())),
                Err(error) => {
                    tracing::debug!("accepting a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Dropped, they end.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    by_age: VecDeque<AbortHandle>,
}

impl Connections {
    /// Who asks and listens is done in no time. When there are too many, the oldest is most likely one that does not.
    fn admit(&mut self, conversation: impl Future<Output = ()> + Send + 'static) {
        if self.by_age.len() >= MOST_CONNECTIONS {
            self.by_age.retain(|connection| !connection.is_finished());
        }
        if self.by_age.len() >= MOST_CONNECTIONS {
            self.by_age.pop_front().iter().for_each(AbortHandle::abort);
        }
        self.by_age.push_back(self.tasks.spawn(conversation));
    }
}

async fn converse(stream: TcpStream, handler: Handler) {
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
        Ok(Err(error)) => tracing::debug!("a client of a status page: {error}"),
        Err(_) => tracing::debug!("a client of a status page took too long"),
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
