//! The query log, in the format of CoreDNS.

use std::time::Duration;

use super::client::Client;
use crate::wire::{Query, Rcode, flag, kind};

pub(super) struct QueryLog<'a> {
    pub(super) query: &'a Query<'a>,
    pub(super) client: Client,
    pub(super) rcode: Rcode,
    pub(super) size: usize,
    pub(super) time: Duration,
}

impl QueryLog<'_> {
    pub(super) fn write(&self) {
        let Self { query, client, rcode, size, time } = self;
        let protocol = if client.is_tcp { "tcp" } else { "udp" };
        let size_of_client = query.edns.map_or(512, |edns| edns.size);
        tracing::info!(
            "{} - {} \"{} IN {} {protocol} {} {} {size_of_client}\" {} {} {size} {:.9}s",
            client.address,
            query.id,
            kind_name(query.kind),
            query.name,
            query.message.len(),
            query.wants_dnssec(),
            rcode.name(),
            if query.flags & flag::RECURSION_DESIRED != 0 { "qr,rd" } else { "qr" },
            time.as_secs_f64(),
        );
    }
}

fn kind_name(kind: u16) -> String {
    match kind::name(kind) {
        "other" => format!("TYPE{kind}"),
        name => name.to_owned(),
    }
}
