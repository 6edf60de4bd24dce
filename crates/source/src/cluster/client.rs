//! An HTTP client of one server: a connection for each request under way, kept for the next once the answer is read.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use super::credentials::Login;
use super::dial::dial;
use super::error::chain;

/// A request for a path of the server.
pub(super) type Request = http::Request<Full<Bytes>>;

/// What the server sends.
pub(super) type Body = Incoming;

pub(super) struct Client {
    login: Login,
    host: HeaderValue,
    keepalive: Duration,
    /// Connections whose answer is being read are here, too: they are not ready until it has ended.
    connections: Mutex<Vec<SendRequest<Full<Bytes>>>>,
}

impl Client {
    pub(super) fn new(login: Login, keepalive: Duration) -> Self {
        let host = login.server.authority().map_or("", |it| it.as_str());
        let host = HeaderValue::try_from(host).expect("what is good in an address is good in a header");
        Self { login, host, keepalive, connections: Mutex::default() }
    }

    /// Waits for the beginning of the answer.
    pub(super) async fn send(&self, request: Request) -> Result<Response<Body>, String> {
        let mut request = self.addressed(request).map_err(|error| error.to_string())?;
        while let Some(mut connection) = self.idle() {
            match connection.try_send_request(request).await {
                Ok(response) => return Ok(self.keep(connection, response)),
                Err(mut failure) => match failure.take_message() {
                    // The server has just closed it, and has seen nothing of the request.
                    Some(unsent) => request = unsent,
                    None => return Err(chain(&failure.into_error())),
                },
            }
        }
        let mut connection = dial(&self.login, self.keepalive).await?;
        let response = connection.send_request(request).await.map_err(|error| chain(&error))?;
        Ok(self.keep(connection, response))
    }

    fn addressed(&self, mut request: Request) -> Result<Request, http::Error> {
        *request.uri_mut() = below(&self.login.server, request.uri())?;
        request.headers_mut().insert(HOST, self.host.clone());
        request.headers_mut().extend(self.login.headers.clone());
        Ok(request)
    }

    fn idle(&self) -> Option<SendRequest<Full<Bytes>>> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.retain(|connection| !connection.is_closed());
        let ready = connections.iter().position(SendRequest::is_ready)?;
        Some(connections.swap_remove(ready))
    }

    fn keep(&self, connection: SendRequest<Full<Bytes>>, response: Response<Body>) -> Response<Body> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        response
    }
}

/// The API may live below a path, as it does behind some gateways.
fn below(server: &Uri, path: &Uri) -> Result<Uri, http::Error> {
    let path = path.path_and_query().map_or("/", PathAndQuery::as_str);
    Uri::builder().path_and_query(format!("{}{path}", server.path().trim_end_matches('/'))).build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_below_the_server() {
        let joined = |server: &str, path: &str| {
            below(&server.parse().expect("a server"), &path.parse().expect("a path")).expect("a path").to_string()
        };
        assert_eq!(joined("https://192.0.2.1:6443", "/api/v1/nodes?watch=true"), "/api/v1/nodes?watch=true");
        assert_eq!(joined("https://[2001:db8::1]:6443/", "/api"), "/api");
        assert_eq!(joined("https://gateway/k8s/clusters/c-1/", "/api?x=%2F"), "/k8s/clusters/c-1/api?x=%2F");
    }
}
