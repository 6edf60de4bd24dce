//! IP sets in the real kernel, compared with the program `ipset`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_kernel::ipset::{Entry, IpSets, Requests, SetType};
use portolan_model::Protocol;

use crate::common::{new_namespace, run};

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// The name, what it holds, whether IPv6, and entries as `ipset` prints them.
type Sample = (&'static str, SetType, bool, Vec<(Entry, &'static str)>);

/// Every type, in both families.
fn samples() -> Vec<Sample> {
    let (v4, v6) = (address("10.96.0.10"), address("fd00:96::a"));
    let (tcp, sctp) = (Protocol::Tcp, Protocol::Sctp);
    vec![
        ("IPS", SetType::HashIp, false, vec![(Entry::Ip(v4), "10.96.0.10")]),
        ("IPS6", SetType::HashIp, true, vec![(Entry::Ip(v6), "fd00:96::a")]),
        (
            "CLUSTER",
            SetType::HashIpPort,
            false,
            vec![
                (Entry::IpPort(v4, tcp, 80), "10.96.0.10,tcp:80"),
                (Entry::IpPort(v4, sctp, 2905), "10.96.0.10,sctp:2905"),
            ],
        ),
        ("CLUSTER6", SetType::HashIpPort, true, vec![(Entry::IpPort(v6, Protocol::Udp, 53), "fd00:96::a,udp:53")]),
        (
            "LOOP",
            SetType::HashIpPortIp,
            false,
            vec![(Entry::IpPortIp(v4, tcp, 80, v4), "10.96.0.10,tcp:80,10.96.0.10")],
        ),
        (
            "RANGES",
            SetType::HashIpPortNet,
            false,
            vec![
                (Entry::IpPortNet(v4, tcp, 80, address("192.0.2.0"), 24), "10.96.0.10,tcp:80,192.0.2.0/24"),
                (Entry::IpPortNet(v4, tcp, 80, address("192.0.3.1"), 32), "10.96.0.10,tcp:80,192.0.3.1"),
            ],
        ),
        (
            "RANGES6",
            SetType::HashIpPortNet,
            true,
            vec![(Entry::IpPortNet(v6, tcp, 80, address("2001:db8::"), 32), "fd00:96::a,tcp:80,2001:db8::/32")],
        ),
        ("PORTS", SetType::BitmapPort, false, vec![(Entry::Port(30_080), "30080"), (Entry::Port(65_535), "65535")]),
    ]
}

fn members(name: &str) -> BTreeSet<String> {
    let text = run("ipset", &["list", name]);
    text.lines().skip_while(|line| *line != "Members:").skip(1).map(str::to_owned).collect()
}

#[test]
fn sets_are_as_ipset_sees_them_and_are_read_back() {
    new_namespace();
    let mut sets = IpSets::open().unwrap();
    for (name, kind, is_ipv6, entries) in samples() {
        let mut requests = Requests::default();
        // Twice: an existing set is no error.
        for _ in 0..2 {
            requests.create(name, kind, is_ipv6);
            entries.iter().for_each(|(entry, _)| requests.add(name, entry));
        }
        sets.perform(requests).unwrap();
        let printed: BTreeSet<String> = entries.iter().map(|(_, text)| (*text).to_owned()).collect();
        assert_eq!(members(name), printed, "{name}");
        assert_eq!(entries.iter().map(|(entry, _)| entry.to_string()).collect::<BTreeSet<_>>(), printed);

        let set = sets.list(name).unwrap().unwrap();
        assert_eq!((set.kind, set.is_ipv6), (Some(kind), is_ipv6), "{name}");
        let read: BTreeSet<Entry> = set.entries.into_iter().collect();
        assert_eq!(read, entries.iter().map(|(entry, _)| *entry).collect(), "{name}");

        let mut requests = Requests::default();
        for _ in 0..2 {
            requests.delete(name, &entries[0].0);
        }
        sets.perform(requests).unwrap();
        assert_eq!(members(name).len(), entries.len() - 1, "{name}");
        assert!(sets.flush(name).unwrap() && members(name).is_empty());
        assert!(sets.destroy(name).unwrap() && !sets.destroy(name).unwrap());
        assert_eq!(sets.list(name).unwrap(), None);
    }
}

#[test]
fn a_large_set_is_written_and_read_whole() {
    new_namespace();
    let mut sets = IpSets::open().unwrap();
    let mut requests = Requests::default();
    requests.create("MANY", SetType::HashIpPort, false);
    let entry = |number: u16| Entry::IpPort(address("10.96.0.10"), Protocol::Tcp, number);
    (0..20_000).for_each(|number| requests.add("MANY", &entry(number)));
    sets.perform(requests).unwrap();
    let read: BTreeSet<Entry> = sets.list("MANY").unwrap().unwrap().entries.into_iter().collect();
    assert_eq!(read, (0..20_000).map(entry).collect());
}

#[test]
fn a_refused_request_is_named_and_the_others_are_done() {
    new_namespace();
    let mut sets = IpSets::open().unwrap();
    let mut requests = Requests::default();
    requests.create("ONE", SetType::BitmapPort, false);
    requests.add("MISSING", &Entry::Port(1));
    requests.add("ONE", &Entry::Port(2));
    let error = sets.perform(requests).unwrap_err().to_string();
    assert!(error.contains("add 1 in set MISSING"), "{error}");
    assert_eq!(members("ONE"), BTreeSet::from(["2".to_owned()]));
}
