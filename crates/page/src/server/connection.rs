//! One connection: one request, within a time, or one stream of events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use portolan_status::ServeConnection;
use tokio::net::TcpStream;

use super::lifetime::Lifetime;
use super::site::Site;

/// A connection without a complete request header is closed after this time.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest request header.
const LARGEST_HEADER: usize = 16 * 1024;

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
