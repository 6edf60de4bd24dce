//! The kernel's counters, read and deleted.

use std::collections::HashMap;

use portolan_kernel::nftables::{Count, Element, ElementData, Nftables as Handle};
use portolan_model::Family;
use portolan_plan::Refusal;

use super::TABLE;
use super::apply::NftablesKernel;
use super::bytes::{Bytes, Reader};
use super::routes::refusal_name;
use super::sets::{LEARNED_SIZE, SetName};
use crate::Error;
use crate::traffic::{CountTraffic, Counts, Pair, Usage};

impl CountTraffic for NftablesKernel {
    fn read_counts(&mut self) -> Result<Counts, Error> {
        let mut counts = Counts { capacity: LEARNED_SIZE as usize, ..Counts::default() };
        for family in Family::BOTH {
            for set in SetName::COUNTED {
                read_pairs(self.handle(), family, set, &mut counts.pairs)?;
            }
            for (chain, count) in self.handle().rule_counts(family, TABLE)? {
                let refusal = Refusal::ALL.into_iter().find(|refusal| *refusal_name(*refusal) == *chain);
                counts.refusals.extend(refusal.map(|refusal| ((family, refusal), count)));
            }
        }
        Ok(counts)
    }

    /// Another process may have deleted some of them.
    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        for family in Family::BOTH {
            for set in SetName::COUNTED {
                let here = |(pair, usage): &&(Pair, Usage)| {
                    Family::of(pair.destination) == family && part(*usage, set) != Count::default()
                };
                let elements: Vec<Element> = pairs.iter().filter(here).map(|(pair, _)| element(pair)).collect();
                self.delete_present(family, set.name(), &elements)?;
            }
        }
        Ok(())
    }
}

fn read_pairs(
    handle: &mut Handle,
    family: Family,
    set: SetName,
    pairs: &mut HashMap<Pair, Usage>,
) -> Result<(), Error> {
    handle.element_counts(family, TABLE, set.name(), &mut |key, count| {
        if let Some(pair) = decode(family, key) {
            put(pairs.entry(pair).or_default(), set, count);
        }
    })?;
    Ok(())
}

fn put(usage: &mut Usage, set: SetName, count: Count) {
    match set {
        SetName::Connections => usage.connections = count.packets,
        SetName::Requests => usage.requests = count,
        _ => usage.replies = count,
    }
}

fn part(usage: Usage, set: SetName) -> Count {
    match set {
        SetName::Connections => Count { packets: usage.connections, bytes: 0 },
        SetName::Requests => usage.requests,
        _ => usage.replies,
    }
}

fn decode(family: Family, key: &[u8]) -> Option<Pair> {
    let mut reader = Reader { bytes: key, family };
    let destination = reader.address()?;
    let (protocol, port) = reader.tail()?;
    let (endpoint, endpoint_port) = (reader.address()?, reader.port()?);
    Some(Pair { protocol, destination, port, endpoint, endpoint_port })
}

fn element(pair: &Pair) -> Element {
    let key = Bytes::default().address(pair.destination).tail(pair.protocol, pair.port);
    let key = key.address(pair.endpoint).port(pair.endpoint_port).0;
    Element { key, key_end: None, data: ElementData::None, comment: None }
}
