//! One connection: one request, within a time, or one stream of events.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use portolan_status::ServeConnection;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::site::Site;

/// A connection without a complete request header is closed after this time.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that is no stream of events is closed after this time.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest request header.
const LARGEST_HEADER: usize = 16 * 1024;

/// How long a connection lives.
#[derive(Default)]
pub(super) struct Lifetime {
    is_stream: AtomicBool,
    end: Notify,
}

impl Lifetime {
    /// It lives until the client closes it, or until it is ended.
    pub(super) fn become_stream(&self) {
        self.is_stream.store(true, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.end.notify_one();
    }

    async fn is_over(&self) {
        let ended = self.end.notified();
        tokio::pin!(ended);
        tokio::select! {
            () = &mut ended => return,
            () = tokio::time::sleep(CONNECTION_TIMEOUT) => {}
        }
        if self.is_stream.load(Ordering::Relaxed) {
            ended.await;
        }
    }
}

pub(super) fn serve(site: Arc<Site>) -> ServeConnection {
    Arc::new(move |stream| Box::pin(serve_one(stream, site.clone())))
}

async fn serve_one(stream: TcpStream, site: Arc<Site>) {
    let lifetime = Arc::new(Lifetime::default());
    let of_request = lifetime.clone();
    let service = service_fn(move |request| {
        let (site, lifetime) = (site.clone(), of_request.clone());
        async move { Ok::<_, Infallible>(site.answer(request, lifetime).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(LARGEST_HEADER)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        served = connection => if let Err(error) = served {
            tracing::debug!("serving the page: {error}");
        },
        () = lifetime.is_over() => tracing::debug!("a client of the page took too long"),
    }
}
