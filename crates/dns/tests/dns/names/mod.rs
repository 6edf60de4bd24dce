//! Snapshot → zone → answers, without a server.

mod environment;
mod hostile;
mod specification;
mod support;
mod wire;
mod zone;
