//! kube-proxy's nftables mode: its tables read by netlink, and run on a packet by the machine.

use std::net::IpAddr;

use portolan_dataplane::machine::{ReadSets, Ruleset, Table, read_table};
use portolan_dataplane::walk::{BaseChain, Branch, Hook, Rules, Site, Verdict};
use portolan_kernel::nftables::{Element, ElementData, Nftables as Handle, TableFamily, Verdict as Code};
use portolan_model::{Family, Protocol};
use portolan_plan::FrontendAddress;

use crate::frontends::{Frontends, PeerFrontend};

const TABLE: &str = "kube-proxy";

/// The tables of both families.
#[derive(Default)]
pub(crate) struct Nftables {
    rules: Ruleset,
    pub(crate) unknown: Vec<String>,
}

/// The tables as they are now; none if kube-proxy has none. Clients that session affinity remembers are not read: there
/// may be many, and every question is about a new one.
pub(crate) fn read() -> portolan_kernel::Result<Option<Nftables>> {
    let mut handle = Handle::open()?;
    let mut found = Nftables::default();
    for family in [TableFamily::Ip, TableFamily::Ip6] {
        let chains = handle.all_chains(family)?;
        if chains.iter().any(|chain| chain.table == TABLE) {
            let table = read_table(&mut handle, family, TABLE, &chains, ReadSets::WithoutClients)?;
            found.unknown.extend(table.unsupported());
            found.rules.tables.push(table);
        }
    }
    Ok((!found.rules.tables.is_empty()).then_some(found))
}

impl Rules for Nftables {
    fn base_chains(&self, hook: Hook, family: Family) -> Vec<BaseChain> {
        self.rules.base_chains(hook, family)
    }

    fn run(&self, chain: &BaseChain, site: &Site<'_>, branch: Branch) -> Vec<(Branch, Verdict)> {
        self.rules.run(chain, site, branch)
    }
}

/// The sets whose keys are frontends.
const LISTED: [&str; 5] =
    ["service-ips", "no-endpoint-services", "firewall-ips", "service-nodeports", "no-endpoint-nodeports"];

impl Frontends for Nftables {
    fn frontends(&self) -> Vec<PeerFrontend> {
        let of_table = |table: &Table| {
            let elements = LISTED.iter().filter_map(|name| table.sets.get(*name)).flat_map(|set| set.exact());
            let family = table.families.first().copied().unwrap_or(Family::V4);
            elements.filter_map(|element| frontend(family, element)).collect::<Vec<_>>()
        };
        self.rules.tables.iter().flat_map(of_table).collect()
    }
}

/// Keys are an address, which node ports lack, a protocol and a port, each padded to four bytes.
fn frontend(family: Family, element: &Element) -> Option<PeerFrontend> {
    let key = &element.key;
    let (address, rest) = key.split_at_checked(key.len().checked_sub(8)?)?;
    let protocol = Protocol::from_number(rest[0])?;
    let port = u16::from_be_bytes([rest[4], rest[5]]);
    let address = match address.len() {
        0 => FrontendAddress::NodePort(port),
        4 => FrontendAddress::Vip(IpAddr::from(<[u8; 4]>::try_from(address).ok()?), port),
        _ => FrontendAddress::Vip(IpAddr::from(<[u8; 16]>::try_from(address).ok()?), port),
    };
    Some(PeerFrontend { family, address, protocol, service: service_name(element) })
}

/// The Service that an element belongs to, as far as its comment or its chain shows it.
fn service_name(element: &Element) -> String {
    if let Some(comment) = &element.comment {
        return comment.to_string();
    }
    match &element.data {
        ElementData::Verdict(Code::Jump(chain) | Code::Goto(chain)) => named_by_chain(chain).unwrap_or_default(),
        _ => String::new(),
    }
}

/// `KIND-HASH-NAMESPACE/NAME/PROTOCOL/PORT`.
fn named_by_chain(chain: &str) -> Option<String> {
    let rest = chain.splitn(3, '-').nth(2)?;
    let words: Vec<&str> = rest.split('/').collect();
    match words[..] {
        [namespace, name, _, ""] => Some(format!("{namespace}/{name}")),
        [namespace, name, _, port] => Some(format!("{namespace}/{name}:{port}")),
        _ => None,
    }
}
