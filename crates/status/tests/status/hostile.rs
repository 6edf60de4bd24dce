//! Malicious and broken clients.

use std::io::Write;
use std::net::TcpStream;

use crate::fixture::Fixture;
use crate::http::{connect, get, parse, read_all, send};

#[test]
fn invalid_requests_are_refused_without_effect_on_others() {
    let it = Fixture::new();
    for nonsense in [
        "GET\r\n\r\n".to_owned(),
        "\0\u{1}\u{2}\r\n\r\n".to_owned(),
        "GET /healthz HTTP/9.9\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nbad header\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("GET /healthz HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(200)),
        format!("GET /healthz HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(15_000) + &"c".repeat(5_000)),
        "POST /healthz HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_owned(),
        "POST /healthz HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n".to_owned(),
    ] {
        let mut stream = connect(it.metrics());
        stream.write_all(nonsense.as_bytes()).unwrap();
        let mut reply = Vec::new();
        // A server that refuses early may close before it has read everything, which appears as a reset.
        _ = std::io::Read::read_to_end(&mut stream, &mut reply);
        let reply = String::from_utf8_lossy(&reply);
        let is_refused = reply.is_empty() || (400..=505).contains(&parse(&reply).status);
        assert!(is_refused, "{nonsense:?}: {reply}");
        assert_eq!(get(it.metrics(), "/healthz").status, 200, "after {nonsense:?}");
    }
}

#[test]
fn paths_are_taken_as_they_are() {
    let it = Fixture::new();
    for path in ["/../metrics", "//metrics", "/metrics/", "/%6detrics", "/debug/../metrics", "*"] {
        assert_eq!(get(it.metrics(), path).status, 404, "{path}");
    }
}

#[test]
fn a_connection_is_for_one_request() {
    let it = Fixture::new();
    let reply =
        send(it.metrics(), "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /proxyMode HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(parse(&reply).header("connection"), Some("close"));
    assert!(reply.ends_with("\r\n\r\nok"), "{reply}");
    let old = send(it.metrics(), "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert!(old.ends_with("\r\n\r\nok"), "{old}");
}

#[test]
fn idle_clients_do_not_block_others() {
    let it = Fixture::new();
    let silent: Vec<TcpStream> = (0..300).map(|_| connect(it.healthz())).collect();
    assert_eq!(get(it.healthz(), "/livez").status, 200);
    let sent_away =
        silent.iter().filter(|stream| stream.set_nonblocking(true).is_ok() && stream.peek(&mut [0]).is_ok());
    assert!(sent_away.count() >= 150, "the oldest make room");
}

#[test]
fn a_slow_client_is_disconnected() {
    let it = Fixture::new();
    let mut slow = connect(it.metrics());
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: no").unwrap();
    let reply = read_all(&mut slow);
    assert!(reply.is_empty() || parse(&reply).status == 408, "{reply}");
}

#[test]
fn many_at_once_are_all_answered() {
    let it = Fixture::new();
    let (healthz, metrics) = (it.healthz(), it.metrics());
    let ask = move || {
        (0..20).for_each(|_| {
            assert_eq!(get(healthz, "/livez").status, 200);
            assert!(get(metrics, "/metrics").body.ends_with('\n'));
        });
    };
    let clients: Vec<_> = (0..8).map(|_| std::thread::spawn(ask)).collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let page = get(metrics, "/metrics").body;
    assert!(page.contains("kubeproxy_proxy_livez_total{code=\"200\"} 160\n"));
}
