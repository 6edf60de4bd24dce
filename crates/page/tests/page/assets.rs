//! The files of the page are all embedded, and contain nothing that the policy forbids.

use std::path::Path;

use portolan_page::ASSETS;

use crate::client::Server;

#[test]
fn every_file_is_served() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let server = Server::echo();
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
        let answer = server.get(&path);
        assert_eq!(answer.status(), 200, "{path}: add it to ASSETS");
        let length: usize = answer.header("content-length").unwrap().parse().unwrap();
        assert_eq!(length, std::fs::metadata(file).unwrap().len() as usize, "{path}");
    }
    assert_eq!(files.len(), ASSETS.len());
}

#[test]
fn the_page_has_no_inline_script_and_needs_no_other_site() {
    for asset in ASSETS.iter().filter(|asset| asset.path == "/") {
        let text = std::str::from_utf8(asset.bytes).unwrap().to_lowercase();
        for tag in text.split("<script").skip(1) {
            assert!(tag.split('>').next().unwrap().contains("src="), "inline script: {tag}");
        }
        for forbidden in ["<style", " style=", " onclick=", " onload=", "javascript:", "http://", "https://"] {
            assert!(!text.contains(forbidden), "{forbidden} in index.html");
        }
    }
}

#[test]
fn every_answer_has_the_headers_of_the_policy() {
    let server = Server::echo();
    for target in ["/", "/api/overview", "/nothing", "/api/service", "/api/changes?after=x"] {
        let answer = server.get(target);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{target}");
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{target}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{target}");
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{target}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{target}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{target}");
    }
}
