//! The numbers of virtual servers and destinations. IPVS sends no notifications; its listing in /proc is one read for all
//! servers, where netlink needs a request for each. If another network namespace has servers, the listing skips some of
//! ours: a change there can look like a change here, and costs a comparison.

use std::fs;
use std::io;

use crate::error::{Error, Result};

const LISTING: &str = "/proc/thread-self/net/ip_vs";

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    pub servers: usize,
    /// Destinations that get new connections.
    pub active_destinations: usize,
}

impl Tally {
    /// Of the network namespace of this thread; zeroes if the kernel has no IPVS.
    pub fn read() -> Result<Self> {
        match fs::read_to_string(LISTING) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Error::io(format!("reading {LISTING}"), error)),
            Ok(text) => Ok(Self::of(&text)),
        }
    }

    fn of(listing: &str) -> Self {
        let mut tally = Self::default();
        // Three lines of headings.
        for line in listing.lines().skip(3) {
            match line.trim_start().strip_prefix("-> ") {
                None => tally.servers += 1,
                Some(destination) => tally.active_destinations += usize::from(weight(destination) > 0),
            }
        }
        tally
    }
}

/// After address and forwarding method.
fn weight(destination: &str) -> u32 {
    destination.split_whitespace().nth(2).and_then(|weight| weight.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draining_destinations_do_not_count() {
        let text = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  \
                    -> RemoteAddress:Port Forward Weight ActiveConn InActConn\nTCP  0A600050:0050 rr  \n  \
                    -> 0AF40102:1F90      Masq    1      0          0         \n  \
                    -> 0AF40103:1F90      Masq    0      3          0         \n\
                    TCP  [fd00:0010:0096:0000:0000:0000:0000:0050]:0050 rr  \n";
        assert_eq!(Tally::of(text), Tally { servers: 2, active_destinations: 1 });
        assert_eq!(Tally::of(""), Tally::default());
    }
}
