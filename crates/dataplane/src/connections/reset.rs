//! Ends TCP connections with a reset of both sides.
//!
//! A rule answers each packet of the connection with an RST, whose sequence number is the one that the packet acknowledges, so
//! that the peer accepts it. A peer that sends nothing is provoked: it gets a SYN (the server) or a SYN-ACK (the client) for
//! the connection that it has, which RFC 5961 makes it answer with an ACK. A connection without an answer to its first SYN
//! is only forgotten: the client's next SYN goes to another endpoint.

use std::time::Duration;

use portolan_kernel::conntrack::{Conntrack, TcpFlow, TcpState};
use portolan_kernel::nftables::Nftables as Handle;
use portolan_kernel::segment::{Segment, SegmentSender};
use portolan_model::Family;

use super::table;
use crate::Error;

/// How long the rules know a connection.
const LASTS: Duration = Duration::from_secs(30);
/// The same for one that ends only if it can end at once: a later packet would be a request.
const LASTS_BRIEFLY: Duration = Duration::from_secs(1);
/// When a connection is looked at for the first time. The kernel keeps the entry of one that was reset for ten seconds, in which
/// a new connection from the same port would go to the same endpoint, so that it is deleted.
const FIRST_LOOK: Duration = Duration::from_millis(100);
/// When a connection that is still there is provoked again. A peer answers at most twice a second.
const AGAIN: [Duration; 2] = [Duration::from_millis(700), Duration::from_millis(2000)];
/// When an entry that is left is deleted: the next packet is then one of an unknown connection.
const DELETED: Duration = Duration::from_secs(5);
/// Without provocation, the peers have more time to send something.
const DELETED_SILENT: Duration = Duration::from_secs(25);

/// What happens to a connection whose peers do not answer the provocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// It ends with its next packet, or its entry is deleted.
    Ends,
    /// It is kept.
    Stays,
}

pub struct Resetter {
    conntrack: Conntrack,
    handle: Handle,
    /// By family.
    senders: [Option<SegmentSender>; 2],
    /// Connections that may not have ended yet.
    open: Vec<Open>,
    /// When the table can go.
    table_until: Option<Duration>,
}

struct Open {
    flow: TcpFlow,
    persistence: Persistence,
    since: Duration,
    looks: usize,
    at: Duration,
}

impl Resetter {
    /// For the network namespace of the calling thread. Without `CAP_NET_RAW`, nothing is provoked.
    pub fn open() -> Result<Self, Error> {
        let (conntrack, mut handle) = (Conntrack::open()?, Handle::open()?);
        // What a daemon has left that was killed.
        Family::BOTH.into_iter().try_for_each(|family| table::remove(&mut handle, family))?;
        let senders = Family::BOTH.map(sender);
        Ok(Self { conntrack, handle, senders, open: Vec::new(), table_until: None })
    }

    pub fn conntrack(&mut self) -> &mut Conntrack {
        &mut self.conntrack
    }

    /// Whether connections end at once although both sides are silent.
    pub fn provokes(&self) -> bool {
        self.senders.iter().any(Option::is_some)
    }

    /// Ends these connections. Returns how many.
    pub fn end(&mut self, flows: &[TcpFlow], persistence: Persistence, now: Duration) -> Result<usize, Error> {
        let lasts = if persistence == Persistence::Ends { LASTS } else { LASTS_BRIEFLY };
        let (unanswered, flows): (Vec<TcpFlow>, Vec<TcpFlow>) = flows
            .iter()
            .filter(|flow| flow.state != TcpState::Closed)
            .partition(|flow| !flow.is_replied || flow.state == TcpState::Opening);
        self.conntrack.delete_tcp(&unanswered)?;
        for family in Family::BOTH {
            let flows: Vec<TcpFlow> = flows.iter().filter(|flow| flow.flow.family() == family).copied().collect();
            if !flows.is_empty() {
                table::add(&mut self.handle, family, &flows, lasts)?;
                self.table_until = self.table_until.max(Some(now + lasts));
            }
            flows.iter().for_each(|flow| self.provoke(flow));
            let open = |flow: &TcpFlow| Open { flow: *flow, persistence, since: now, looks: 0, at: now + FIRST_LOOK };
            self.open.extend(flows.iter().map(open));
        }
        Ok(unanswered.len() + flows.len())
    }

    /// Each side gets a segment as from the other. The client's is translated as any reply. The endpoint's is sent with the
    /// addresses that the endpoint sees: IPVS drops a SYN to the frontend of a connection whose endpoint is gone. The
    /// numbers are not those of the connection: the peer's answer has them.
    fn provoke(&self, TcpFlow { flow, id, .. }: &TcpFlow) {
        let Some(sender) = &self.senders[flow.family() as usize] else { return };
        let number = u32::from_ne_bytes(id.0);
        let to_client = sender.send(Segment::SynAck, flow.reply_source, flow.reply_destination, number);
        let to_server = sender.send(Segment::Syn, flow.reply_destination, flow.reply_source, !number);
        for error in [to_client, to_server].into_iter().filter_map(Result::err) {
            tracing::debug!("{error}; the connection is reset with its next packet");
        }
    }

    /// Provokes again those that are still open, and deletes what is left in the end. Removes the table once it is not needed.
    pub fn advance(&mut self, now: Duration) -> Result<(), Error> {
        let (due, later): (Vec<Open>, Vec<Open>) = self.open.drain(..).partition(|open| open.at <= now);
        self.open = later;
        for open in due {
            let found = self.conntrack.find_tcp(open.flow.flow.original_source, open.flow.flow.original_destination)?;
            let Some(flow) = found.filter(|flow| flow.id == open.flow.id) else { continue };
            let last = if self.provokes() { DELETED } else { DELETED_SILENT };
            if flow.state == TcpState::Closed || now >= open.since + last {
                // Each at once, because a new connection from the same port may revive it.
                self.conntrack.delete_tcp(&[flow])?;
                continue;
            }
            if open.persistence == Persistence::Stays {
                continue;
            }
            if open.looks > 0 {
                self.provoke(&flow);
            }
            let at = open.since + AGAIN.get(open.looks).copied().unwrap_or(last);
            self.open.push(Open { looks: open.looks + 1, at, ..open });
        }
        if self.open.is_empty() && self.table_until.is_some_and(|until| until <= now) {
            self.remove_table()?;
        }
        Ok(())
    }

    pub fn remove_table(&mut self) -> Result<(), Error> {
        if self.table_until.take().is_some() {
            Family::BOTH.into_iter().try_for_each(|family| table::remove(&mut self.handle, family))?;
        }
        Ok(())
    }

    /// When [`Resetter::advance`] has something to do.
    pub fn next(&self) -> Option<Duration> {
        self.open.iter().map(|open| open.at).min().or(self.table_until)
    }
}

/// A node without a family has no connections of it.
fn sender(family: Family) -> Option<SegmentSender> {
    let sender = SegmentSender::open(family).inspect_err(|error| {
        tracing::warn!(
            "connections of family {} are reset with their next packet only, because peers that send nothing cannot be \
             provoked: {error} (needs the capability CAP_NET_RAW)",
            family.nft_name()
        );
    });
    sender.ok()
}
