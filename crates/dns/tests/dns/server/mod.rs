//! A server with its ports, and other servers that it asks.

mod abuse;
mod forwarding;
mod search;
mod serving;
mod support;
mod upstream;
