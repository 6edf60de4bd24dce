//! Beyond loopback, a token is required.

use std::net::SocketAddr;

use portolan_page::{Access, Reply};

use crate::client::Server;

const TOKEN: &str = "0123456789abcdef-token";

fn server() -> Server {
    Server::start_with(Some(TOKEN), Reply::of)
}

#[test]
fn other_machines_need_a_token() {
    let outside: SocketAddr = "0.0.0.0:8480".parse().unwrap();
    assert!(Access::new(outside, None, &[]).unwrap_err().contains("token"));
    assert!(Access::new(outside, Some("short"), &[]).is_err());
    assert!(Access::new(outside, Some("with a space in the token"), &[]).is_err());
    assert!(Access::new(outside, Some(&format!("{TOKEN}\n")), &[]).is_ok());
    assert!(Access::new("[::1]:8480".parse().unwrap(), None, &[]).is_ok());
}

#[test]
fn nothing_is_served_without_the_token() {
    let server = server();
    for target in
        ["/", "/api/overview", "/api/events", "/nothing", "/api/overview?token=", "/?token=0123456789abcdef-tokem"]
    {
        assert_eq!(server.get(target).status(), 401, "{target}");
    }
    for header in
        ["Authorization: Bearer wrong", "Authorization: Basic eA==", "Cookie: portolan-page-token=x", "Cookie: a=b; c"]
    {
        assert_eq!(server.get_with("/api/overview", &format!("{header}\r\n")).status(), 401, "{header}");
    }
}

#[test]
fn a_bearer_token_is_enough() {
    let answer = server().get_with("/api/overview", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert_eq!(answer.status(), 200);
}

#[test]
fn a_token_in_the_address_becomes_a_cookie() {
    let server = server();
    let answer = server.get(&format!("/api/changes?after=3&token={TOKEN}&limit=5"));
    assert_eq!((answer.status(), answer.header("location")), (303, Some("/api/changes?after=3&limit=5")));
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(server.get_with("/api/overview", &format!("Cookie: other=1; {pair}\r\n")).status(), 200);
    let elsewhere = server.get(&format!("//evil.example/?token={TOKEN}"));
    assert_eq!(elsewhere.header("location"), Some("/evil.example/"));
}
