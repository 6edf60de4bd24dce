//! A server on real ports, with upstream servers.

mod abuse;
mod forwarding;
mod search;
mod serving;
mod support;
mod upstream;
