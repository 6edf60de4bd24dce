//! Snapshot → zone → answers, without a server.

mod hostile;
mod specification;
mod support;
mod wire;
mod zone;
