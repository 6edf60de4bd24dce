//! What the fuzz targets of `portolan-fuzz` call. Not behind a Cargo feature, because a feature would build every crate
//! twice; the linker leaves it out of the program.

use std::time::Duration;

use crate::{Client, Resolver};

/// An upstream's reply to a query: parsed, cached and written for the client, after so much time. `None` if it is not
/// accepted.
pub fn answer_from_upstream(
    resolver: &Resolver,
    query: &[u8],
    reply: &[u8],
    client: Client,
    later: Duration,
) -> Option<Vec<u8>> {
    crate::resolve::answer_with(resolver, query, reply, client, later)
}
