//! The page in a real browser. `make test-page` installs the browser; with SCREENSHOTS=1 the pictures of docs/page are made.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../daemon/poll.rs"]
mod poll;

mod explain;
mod keyboard;
mod large;
mod life;
mod look;
mod manifests;
mod overview;
mod page;
mod service;
mod site;
mod text;
mod time;
