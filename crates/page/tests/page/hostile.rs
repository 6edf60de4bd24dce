//! Requests that no browser of a reader sends.

use std::io::{Read, Write};

use portolan_page::Reply;

use crate::client::Server;

fn refused(server: &Server, request: impl AsRef<[u8]>, statuses: &[u16]) {
    let request = request.as_ref();
    let answer = server.send(request);
    let shown = String::from_utf8_lossy(&request[..request.len().min(120)]).into_owned();
    assert!(statuses.contains(&answer.status()), "{shown:?}: {}", answer.0);
    assert_eq!(server.get("/api/overview").status(), 200, "the server answers after {shown:?}");
}

/// 1. A name of another site that resolves to this machine.
#[test]
fn other_names_of_this_machine_are_refused() {
    let server = Server::echo();
    let port = server.address.port();
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:80",
        "192.0.2.1",
        "",
        "[::1",
        "localhost:x",
        "node-a",
    ] {
        refused(&server, format!("GET /api/overview HTTP/1.1\r\nHost: {host}\r\n\r\n"), &[403, 400]);
    }
    for host in [format!("localhost:{port}"), "127.0.0.1".into(), "[::1]:9000".into(), "LOCALHOST".into()] {
        let answer = server.send(format!("GET /api/overview HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(answer.status(), 200, "{host}: {}", answer.0);
    }
}

/// 2. No Host at all, or two of them.
#[test]
fn a_request_has_exactly_one_host() {
    let server = Server::echo();
    refused(&server, "GET /api/overview HTTP/1.1\r\n\r\n", &[403, 400]);
    refused(&server, "GET /api/overview HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", &[403, 400]);
    refused(&server, "GET /api/overview HTTP/1.0\r\n\r\n", &[403, 400]);
}

/// 3. Requests that a page of another site makes the browser send.
#[test]
fn requests_of_other_sites_are_refused() {
    let server = Server::echo();
    for header in
        ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: http://evil.example", "Origin: null"]
    {
        assert_eq!(server.get_with("/api/overview", &format!("{header}\r\n")).status(), 403, "{header}");
    }
    let own = format!("Sec-Fetch-Site: same-origin\r\nOrigin: http://{}\r\n", server.address);
    assert_eq!(server.get_with("/api/overview", &own).status(), 200);
}

/// 4. Methods that change something.
#[test]
fn only_get_and_head_are_answered() {
    let server = Server::echo();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"] {
        let request = format!("{method} /api/overview HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        refused(&server, request, &[405, 400, 414]);
    }
    let head = server.send("HEAD /api/overview HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status(), head.body()), (200, ""));
    refused(&server, "HEAD /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n", &[405]);
}

/// 5. Paths out of the page.
#[test]
fn paths_lead_to_nothing_else() {
    let server = Server::echo();
    for path in [
        "/../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//evil.example/",
        "/page.css/../../x",
        "/api",
        "/api/",
        "/API/overview",
        "/assets/index.html",
    ] {
        refused(&server, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"), &[404]);
    }
    refused(&server, "GET http://evil.example/api/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", &[404]);
    refused(&server, "GET /\0 HTTP/1.1\r\nHost: localhost\r\n\r\n", &[400, 0]);
}

/// 6. Requests of any size.
#[test]
fn long_requests_are_refused() {
    let server = Server::echo();
    refused(&server, format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(5_000)), &[414]);
    refused(&server, format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(100_000)), &[414, 431, 400, 0]);
    let header = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "b".repeat(100_000));
    refused(&server, header, &[431, 400, 0]);
    let headers = "X: y\r\n".repeat(2_000);
    refused(&server, format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"), &[431, 400, 0]);
    let name = "n".repeat(3_000);
    refused(&server, format!("GET /api/service?name={name} HTTP/1.1\r\nHost: localhost\r\n\r\n"), &[400]);
}

/// 7. A body, with a length that does not fit.
#[test]
fn bodies_are_not_read() {
    let server = Server::echo();
    let smuggled = "GET /api/overview HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n\
                    0\r\n\r\nGET /api/verify HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = server.send(smuggled);
    assert_eq!(answer.0.matches("HTTP/1.1 ").count(), 1, "one request for each connection: {}", answer.0);
    refused(&server, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\nx", &[405, 400]);
}

/// 8. What is no HTTP.
#[test]
fn other_protocols_are_refused() {
    let server = Server::echo();
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
    ] {
        refused(&server, [bytes, b"\r\n\r\n"].concat(), &[400, 404, 403, 405, 505, 0]);
    }
}

/// 9. Clients that hold connections without a request, or send one slowly.
#[test]
fn idle_connections_keep_no_one_out() {
    let server = Server::echo();
    let idle: Vec<_> = (0..300)
        .map(|number| {
            let mut stream = server.connect();
            _ = stream.write_all(if number % 2 == 0 { b"" } else { b"GET /api/over" });
            stream
        })
        .collect();
    assert_eq!(server.get("/api/overview").status(), 200);
    let mut oldest = &idle[0];
    let mut bytes = Vec::new();
    // Closed by the server, after its time for a header at the latest.
    _ = oldest.read_to_end(&mut bytes);
    assert!(bytes.is_empty() || bytes.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&bytes));
}

/// 10. Parameters with anything in them, and names with markup.
#[test]
fn parameters_come_back_as_json_strings_only() {
    let server = Server::echo();
    for query in ["name=%", "name=%zz", "name=%ff", "name=", "", "after=-1", &"a=b&".repeat(40)] {
        refused(&server, format!("GET /api/service?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n"), &[400]);
    }
    let name = "</script><img src=x onerror=alert(1)>\r\nSet-Cookie: x=y";
    let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let answer = server.get(&format!("/api/service?name={encoded}"));
    assert_eq!((answer.status(), answer.header("content-type")), (200, Some("application/json")));
    assert_eq!(answer.json()["Service"]["name"], name);
    assert_eq!(answer.header("set-cookie"), None);
    let failing = Server::start(|_| Reply::error(404, "there is no Service <b>x</b>"));
    let answer = failing.get("/api/service?name=x");
    assert_eq!((answer.status(), answer.header("content-type")), (404, Some("application/json")));
}

/// A question whose answer panics costs that answer alone.
#[test]
fn an_answer_that_fails_is_an_error_of_the_server() {
    let server = Server::start(|question| match question {
        portolan_page::Question::Verify => panic!("this panic is part of the test"),
        other => Reply::of(other),
    });
    refused(&server, "GET /api/verify HTTP/1.1\r\nHost: localhost\r\n\r\n", &[500]);
}
