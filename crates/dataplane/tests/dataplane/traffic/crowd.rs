//! A kernel that is nearly full of pairs, and one that restarts its counters.

use std::net::Ipv4Addr;

use portolan_dataplane::Error;
use portolan_dataplane::traffic::{CountTraffic, Counts, Pair, Traffic, Usage};
use portolan_kernel::nftables::Count;
use portolan_model::Protocol;
use portolan_plan::{Plan, Reason, Refusal};

/// Returns the counters that the test has set.
struct Memory(Counts);

impl CountTraffic for Memory {
    fn read_counts(&mut self) -> Result<Counts, Error> {
        Ok(self.0.clone())
    }

    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        pairs.iter().for_each(|(pair, _)| _ = self.0.pairs.remove(pair));
        Ok(())
    }
}

fn pair(number: u32) -> Pair {
    let address = |base| Ipv4Addr::from(base + number).into();
    let (destination, endpoint) = (address(0x0a60_0000), address(0x0af4_0000));
    Pair { protocol: Protocol::Tcp, destination, port: 80, endpoint, endpoint_port: 8080 }
}

fn used(times: u64) -> Usage {
    let count = Count { packets: times, bytes: times * 100 };
    Usage { connections: times, requests: count, replies: count }
}

#[test]
fn only_pairs_that_were_idle_make_room() {
    let pairs = (0..100).map(|number| (pair(number), used(1))).collect();
    let mut kernel = Memory(Counts { pairs, capacity: 100, ..Counts::default() });
    let mut traffic = Traffic::new();
    let sample = traffic.read(&mut kernel, &Plan::default()).expect("it cannot fail");
    assert!(sample.is_full && sample.pairs == 100, "{sample:?}");
    assert_eq!(kernel.0.pairs.len(), 100, "all of them were new");
    kernel.0.pairs.insert(pair(7), used(2));
    traffic.read(&mut kernel, &Plan::default()).expect("it cannot fail");
    assert_eq!(kernel.0.pairs.keys().copied().collect::<Vec<_>>(), [pair(7)]);
    assert!(!traffic.read(&mut kernel, &Plan::default()).expect("it cannot fail").is_full);
}

#[test]
fn a_counter_that_restarts_does_not_decrease_the_total() {
    let refusal = (portolan_model::Family::V4, Refusal::Drop(Reason::NoLocalEndpoints));
    let mut kernel = Memory(Counts { capacity: 100, ..Counts::default() });
    let mut traffic = Traffic::new();
    for (now, expected) in [(5, 5), (9, 9), (2, 11), (3, 12)] {
        kernel.0.refusals.insert(refusal, Count { packets: now, bytes: now * 100 });
        let sample = traffic.read(&mut kernel, &Plan::default()).expect("it cannot fail");
        assert_eq!(sample.refusals[&refusal], Count { packets: expected, bytes: expected * 100 });
    }
}
