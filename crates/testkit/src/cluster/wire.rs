//! HTTP over TLS to the API server, on blocking sockets: a connection belongs to the network namespace of the thread that
//! opens it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A busy server may be slow.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Wire(BufReader<StreamOwned<ClientConnection, TcpStream>>);

pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Vec<u8>,
}

/// Trusts the certificates of a PEM file.
pub(super) fn trusting(authority: &Path) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(authority).map_err(|error| error.to_string())?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

impl Wire {
    pub(super) fn open(config: &Arc<ClientConfig>, server: SocketAddr) -> io::Result<Wire> {
        let socket = TcpStream::connect_timeout(&server, TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        let name = ServerName::IpAddress(server.ip().into());
        let session = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        Ok(Wire(BufReader::new(StreamOwned::new(session, socket))))
    }

    /// Sends a request, whose head is not terminated yet, and reads the whole response.
    pub(super) fn exchange(&mut self, head: &str, body: &str) -> io::Result<Answer> {
        let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let stream = self.0.get_mut();
        stream.write_all(request.as_bytes())?;
        stream.flush()?;
        read_answer(&mut self.0)
    }
}

fn read_answer(input: &mut impl BufRead) -> io::Result<Answer> {
    let status = read_line(input)?;
    let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| io::Error::other(format!("{status:?} is not a response")))?;
    let mut length = Some(0);
    loop {
        let header = read_line(input)?.to_ascii_lowercase();
        match header.split_once(": ") {
            None => break,
            Some(("content-length", value)) => length = value.parse().ok(),
            Some(("transfer-encoding", "chunked")) => length = None,
            Some(_) => {}
        }
    }
    let body = match length {
        Some(length) => read_exactly(input, length),
        None => read_chunks(input),
    };
    Ok(Answer { code, body: body? })
}

fn read_chunks(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let length = read_line(input)?;
        let length = usize::from_str_radix(&length, 16).map_err(io::Error::other)?;
        body.extend(read_exactly(input, length)?);
        read_line(input)?;
        if length == 0 {
            return Ok(body);
        }
    }
}

fn read_exactly(input: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).map(|()| bytes)
}

fn read_line(input: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> io::Result<(u16, String)> {
        let answer = read_answer(&mut text.as_bytes())?;
        Ok((answer.code, String::from_utf8(answer.body).expect("text")))
    }

    #[test]
    fn bodies_have_a_length_or_come_in_chunks() {
        let sized = read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: y\r\n\r\nokHTTP/1.1").expect("an answer");
        assert_eq!(sized, (200, "ok".to_owned()));
        let chunked =
            "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(read(chunked).expect("an answer"), (404, "abc0123456789".to_owned()));
    }

    #[test]
    fn an_incomplete_response_is_an_error() {
        for text in ["", "HTTP/1.1", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "HTTP/1.1 200 OK\r\n"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
