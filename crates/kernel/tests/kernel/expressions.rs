//! Every expression goes to the kernel, comes back equal, and is understood by `nft list`.

use std::sync::Arc;

use portolan_kernel::nftables::{
    Batch, ChainKind, ConntrackKey, DynsetOperation, ElementData, Expression, FibAddress, Hook, HookPoint, ListedBase,
    ListedChain, MetaKey, Nftables, Numbers, Operator, PayloadBase, Policy, Register, SetData, SetSpec, TableFamily,
    Verdict,
};
use portolan_model::Family;

use crate::common::{new_namespace, run};

const TABLE: &str = "test";
const FIRST: Register = Register(0);
const ADDRESS: u32 = 7;
const PROTOCOL: u32 = 12;
const PORT: u32 = 13;
const INTEGER: u32 = 4;

type Rule = (&'static str, Vec<Expression>);

fn hook(kind: ChainKind, point: HookPoint, priority: i32) -> Hook {
    Hook { kind, point, priority }
}

fn chains() -> Vec<(&'static str, Option<Hook>)> {
    vec![
        ("filter", Some(hook(ChainKind::Filter, HookPoint::Forward, -5))),
        ("nat-in", Some(hook(ChainKind::Nat, HookPoint::Prerouting, -100))),
        ("nat-local", Some(hook(ChainKind::Nat, HookPoint::Output, -100))),
        ("nat-out", Some(hook(ChainKind::Nat, HookPoint::Postrouting, 100))),
        ("input", Some(hook(ChainKind::Filter, HookPoint::Input, 0))),
        ("other", None),
        ("target", None),
    ]
}

fn sets() -> Vec<(&'static str, SetSpec)> {
    let port_key = ADDRESS << 12 | PROTOCOL << 6 | PORT;
    let services =
        SetSpec { key_type: port_key, key_fields: vec![4, 1, 2], data: SetData::Verdict, ..SetSpec::default() };
    let endpoints = SetSpec {
        key_type: INTEGER,
        key_fields: vec![4],
        data: SetData::Value { data_type: ADDRESS << 6 | PORT, length: 8 },
        // Byte orders: the key is the machine's, the data is the network's.
        user_data: vec![0, 4, 1, 0, 0, 0, 1, 4, 2, 0, 0, 0],
        ..SetSpec::default()
    };
    let clients = SetSpec {
        key_type: ADDRESS,
        key_fields: vec![4],
        dynamic: true,
        timeout: true,
        size: Some(65_535),
        ..SetSpec::default()
    };
    let affinity = SetSpec { data: SetData::Value { data_type: INTEGER, length: 4 }, ..clients.clone() };
    let sources = SetSpec {
        key_type: port_key << 6 | ADDRESS,
        key_fields: vec![4, 1, 2, 4],
        interval: true,
        ..SetSpec::default()
    };
    let local = SetSpec { key_type: ADDRESS, key_fields: vec![4], interval: true, ..SetSpec::default() };
    vec![
        ("affinity", affinity),
        ("clients", clients),
        ("endpoints", endpoints),
        ("local", local),
        ("services", services),
        ("sources", sources),
    ]
}

fn payload(base: PayloadBase, offset: u32, length: u32, word: u8) -> Expression {
    Expression::Payload { base, offset, length, destination: Register(word) }
}

fn source_address(word: u8) -> Expression {
    payload(PayloadBase::Network, 12, 4, word)
}

fn destination_address(word: u8) -> Expression {
    payload(PayloadBase::Network, 16, 4, word)
}

fn destination_port(word: u8) -> Expression {
    payload(PayloadBase::Transport, 2, 2, word)
}

fn meta(key: MetaKey, word: u8) -> Expression {
    Expression::Meta { key, destination: Register(word) }
}

fn equal(value: &[u8]) -> Expression {
    compare(Operator::Equal, value)
}

fn compare(operator: Operator, value: &[u8]) -> Expression {
    Expression::Compare { source: FIRST, operator, value: value.to_vec() }
}

fn below(port: u16) -> Expression {
    compare(Operator::Less, &port.to_be_bytes())
}

fn between(first: u16, last: u16) -> Expression {
    let (from, to) = (first.to_be_bytes().to_vec(), last.to_be_bytes().to_vec());
    Expression::Range { source: FIRST, inverted: true, from, to }
}

fn masked(mask: &[u8], xor: &[u8]) -> Expression {
    Expression::Bitwise { source: FIRST, destination: FIRST, mask: mask.to_vec(), xor: xor.to_vec() }
}

fn lookup(set: &str, destination: Option<Register>, inverted: bool) -> Expression {
    Expression::Lookup { set: Arc::from(set), source: FIRST, destination, inverted }
}

fn dynset(operation: DynsetOperation, set: &str, data: Option<Register>) -> Expression {
    Expression::Dynset { operation, set: Arc::from(set), key: FIRST, data, timeout_milliseconds: None, counts: false }
}

fn dynset_with_timeout(operation: DynsetOperation, set: &str, timeout: u64) -> Expression {
    Expression::Dynset {
        operation,
        set: Arc::from(set),
        key: FIRST,
        data: None,
        timeout_milliseconds: Some(timeout),
        counts: false,
    }
}

fn verdict_rules() -> Vec<Rule> {
    let target = || Arc::from("target");
    [
        Verdict::Accept,
        Verdict::Drop,
        Verdict::Return,
        Verdict::Continue,
        Verdict::Jump(target()),
        Verdict::Goto(target()),
    ]
    .into_iter()
    .map(|verdict| ("filter", vec![Expression::Verdict(verdict)]))
    .collect()
}

fn match_rules() -> Vec<Rule> {
    let mark = 0x4000_u32.to_ne_bytes();
    let name = *b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let conntrack = |key| Expression::Conntrack { key, destination: FIRST };
    let fib = |address| Expression::Fib { address, destination: FIRST };
    let local = equal(&2_u32.to_ne_bytes());
    let bits = |bits: u32| masked(&bits.to_ne_bytes(), &[0; 4]);
    let not_zero = compare(Operator::NotEqual, &[0; 4]);
    vec![
        ("filter", vec![destination_address(0), equal(&[10, 0, 0, 1]), Expression::Counter]),
        (
            "filter",
            vec![source_address(0), masked(&[255, 0, 0, 0], &[0; 4]), compare(Operator::NotEqual, &[127, 0, 0, 0])],
        ),
        ("filter", vec![meta(MetaKey::L4Protocol, 0), equal(&[6]), destination_port(0), equal(&80_u16.to_be_bytes())]),
        ("filter", vec![meta(MetaKey::InputInterfaceName, 0), equal(&name)]),
        ("filter", vec![meta(MetaKey::OutputInterfaceName, 0), compare(Operator::NotEqual, &name)]),
        ("filter", vec![meta(MetaKey::L4Protocol, 0), equal(&[6]), destination_port(0), below(1024)]),
        ("filter", vec![meta(MetaKey::L4Protocol, 0), equal(&[6]), destination_port(0), between(8000, 8100)]),
        (
            "filter",
            vec![
                meta(MetaKey::Mark, 0),
                masked(&(!0x4000_u32).to_ne_bytes(), &mark),
                Expression::SetMeta { key: MetaKey::Mark, source: FIRST },
            ],
        ),
        ("filter", vec![conntrack(ConntrackKey::State), bits(8), not_zero.clone()]),
        ("filter", vec![conntrack(ConntrackKey::Status), bits(0x20), not_zero]),
        ("nat-in", vec![fib(FibAddress::Destination), local.clone()]),
        ("nat-in", vec![fib(FibAddress::Source), local]),
    ]
}

fn set_rules() -> Vec<Rule> {
    let service_key = [destination_address(0), meta(MetaKey::L4Protocol, 1), destination_port(2)];
    let mut services = service_key.to_vec();
    services.push(lookup("services", Some(Register::VERDICT), false));
    let mut sources = service_key.to_vec();
    sources.push(source_address(3));
    sources.push(lookup("sources", None, true));
    vec![
        ("nat-local", services),
        ("nat-local", sources),
        ("other", vec![source_address(0), lookup("clients", None, false)]),
        ("other", vec![destination_address(0), lookup("local", None, false)]),
        ("other", vec![source_address(0), dynset(DynsetOperation::Add, "clients", None)]),
        ("other", vec![source_address(0), dynset_with_timeout(DynsetOperation::Update, "clients", 60_000)]),
        ("other", vec![source_address(0), dynset(DynsetOperation::Delete, "clients", None)]),
        (
            "other",
            vec![
                source_address(0),
                random(Register(4), 0),
                dynset(DynsetOperation::Update, "affinity", Some(Register(4))),
            ],
        ),
    ]
}

fn random(destination: Register, offset: u32) -> Expression {
    Expression::NumberGenerator { numbers: Numbers::Random, destination, modulus: 3, offset }
}

fn nat_rules() -> Vec<Rule> {
    let nat = |port| Expression::DestinationNat { family: Family::V4, address: FIRST, port };
    let masquerade = |fully_random| Expression::Masquerade { fully_random };
    vec![
        (
            "nat-in",
            vec![
                meta(MetaKey::L4Protocol, 0),
                equal(&[6]),
                random(FIRST, 65_536),
                lookup("endpoints", Some(FIRST), false),
                nat(Register(1)),
            ],
        ),
        (
            "nat-in",
            vec![
                meta(MetaKey::L4Protocol, 0),
                equal(&[6]),
                source_address(0),
                Expression::Hash { source: FIRST, length: 4, destination: FIRST, modulus: 5, seed: 77, offset: 9 },
                lookup("endpoints", Some(FIRST), false),
                nat(Register(1)),
            ],
        ),
        (
            "nat-in",
            vec![
                meta(MetaKey::L4Protocol, 0),
                equal(&[6]),
                Expression::NumberGenerator { numbers: Numbers::InTurn, destination: FIRST, modulus: 3, offset: 1 },
                lookup("endpoints", Some(FIRST), false),
                nat(Register(1)),
            ],
        ),
        (
            "nat-in",
            vec![
                meta(MetaKey::L4Protocol, 0),
                equal(&[17]),
                Expression::Immediate { destination: FIRST, value: vec![10, 0, 0, 9] },
                Expression::Immediate { destination: Register(4), value: 53_u16.to_be_bytes().to_vec() },
                nat(Register(4)),
            ],
        ),
        ("nat-out", vec![masquerade(true)]),
        ("nat-out", vec![masquerade(false)]),
        ("input", vec![Expression::Reject { kind: 0, code: 3 }]),
        ("input", vec![meta(MetaKey::L4Protocol, 0), equal(&[6]), Expression::Reject { kind: 1, code: 0 }]),
    ]
}

/// The rules grouped by chain, as the kernel lists them.
fn rules() -> Vec<(String, Vec<Expression>)> {
    let all = [verdict_rules(), match_rules(), set_rules(), nat_rules()].concat();
    let mut grouped: Vec<_> = all.into_iter().map(|(chain, rule)| (chain.to_owned(), rule)).collect();
    let order = |name: &str| chains().iter().position(|(chain, _)| *chain == name);
    grouped.sort_by_key(|(chain, _)| order(chain));
    grouped
}

fn complete_table() -> Batch {
    let mut batch = Batch::new();
    batch.add_table(Family::V4, TABLE);
    for (name, hook) in chains() {
        batch.add_chain(Family::V4, TABLE, name, hook.as_ref());
    }
    for (name, spec) in sets() {
        batch.add_set(Family::V4, TABLE, name, &spec);
    }
    for (chain, rule) in rules() {
        batch.add_rule(Family::V4, TABLE, &chain, &rule, None);
    }
    batch
}

fn named<T>(objects: Vec<(&str, T)>) -> Vec<(String, T)> {
    objects.into_iter().map(|(name, object)| (name.to_owned(), object)).collect()
}

#[test]
fn everything_comes_back_as_it_was_written() {
    new_namespace();
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(complete_table()).unwrap();
    assert_eq!(nftables.tables(Family::V4).unwrap(), [TABLE]);
    assert_eq!(nftables.tables(Family::V6).unwrap(), [""; 0]);
    let mut read = nftables.chains(Family::V4, TABLE).unwrap();
    read.sort_by(|one, other| one.0.cmp(&other.0));
    let mut written = named(chains());
    written.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(read, written);
    let mut read = nftables.sets(Family::V4, TABLE).unwrap();
    read.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(read, named(sets()));
    let read = nftables.rules(Family::V4, TABLE).unwrap();
    for (read, written) in read.iter().zip(rules()) {
        assert_eq!(*read, written);
    }
    assert_eq!(read.len(), rules().len());
}

#[test]
fn everything_is_understood_by_the_nft_program() {
    new_namespace();
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(complete_table()).unwrap();
    let listed = run("nft", &["list", "table", "ip", TABLE]);
    assert!(!listed.to_lowercase().contains("unknown"), "{listed}");
    for line in [
        "type filter hook forward priority filter - 5; policy accept;",
        "type nat hook prerouting priority dstnat; policy accept;",
        "ip daddr 10.0.0.1 counter packets 0 bytes 0",
        "ip saddr != 127.0.0.0/8",
        "tcp dport 80",
        "iifname \"lo\"",
        "meta mark set meta mark | 0x00004000",
        "ct state new",
        "ct status dnat",
        "fib daddr type local",
        "fib saddr type local",
        "ip daddr . meta l4proto . th dport vmap @services",
        "ip daddr . meta l4proto . th dport . ip saddr != @sources",
        "ip saddr @clients",
        "ip daddr @local",
        "add @clients { ip saddr }",
        "update @clients { ip saddr timeout 1m }",
        "delete @clients { ip saddr }",
        "update @affinity { ip saddr : numgen random mod 3 }",
        "meta l4proto tcp dnat ip to numgen random mod 3 offset 65536 map @endpoints",
        "meta l4proto tcp dnat ip to jhash ip saddr mod 5 seed 0x4d offset 9 map @endpoints",
        "meta l4proto udp dnat to 10.0.0.9:53",
        "oifname != \"lo\"",
        "tcp dport < 1024",
        "tcp dport != 8000-8100",
        "masquerade fully-random",
        "reject\n",
        "reject with tcp reset",
    ] {
        assert!(listed.contains(line), "{line:?} is not in\n{listed}");
    }
}

/// Expressions that only `nft` writes must not be mistaken for ours, nor stop the reading.
#[test]
fn what_others_write_is_read_as_unknown() {
    new_namespace();
    run(
        "nft",
        &["add table ip test;
             add chain ip test drops { type filter hook input priority 3; policy drop; };
             add chain ip test routes { type route hook output priority 4; };
             add rule ip test drops limit rate 5/second log accept;
             add rule ip test drops ip saddr { 10.0.0.1, 10.0.0.2 } quota over 25 mbytes counter"],
    );
    let mut nftables = Nftables::open().unwrap();
    let unknown = |point, priority| Some(hook(ChainKind::Unknown, point, priority));
    assert_eq!(
        nftables.chains(Family::V4, TABLE).unwrap(),
        named(vec![("drops", unknown(HookPoint::Input, 3)), ("routes", unknown(HookPoint::Output, 4)),])
    );
    let rules = nftables.rules(Family::V4, TABLE).unwrap();
    let name = |name: &str| Expression::Unknown { name: name.to_owned() };
    assert_eq!(rules[0].1[..2], [name("limit"), name("log")]);
    assert!(rules[1].1.contains(&name("quota")));
    let sets = nftables.sets(Family::V4, TABLE).unwrap();
    assert!(sets[0].0.starts_with("__set"), "{sets:?}");
}

/// Rules of a firewall, in a family that we never write.
#[test]
fn tables_of_other_programs_can_be_read() {
    new_namespace();
    run(
        "nft",
        &["add table inet fw;
             add chain inet fw input { type filter hook input priority 3; policy drop; };
             add chain inet fw marks { type route hook output priority -150; };
             add chain inet fw helper;
             add map inet fw ports { type inet_service : verdict; };
             add element inet fw ports { 80 : accept, * : drop };
             add rule inet fw input iifname lo accept;
             add rule inet fw input tcp dport 8000-8100 accept;
             add rule inet fw input tcp dport < 1024 oifname eth0 tcp dport vmap @ports"],
    );
    let mut nftables = Nftables::open().unwrap();
    let chains = nftables.all_chains(TableFamily::Inet).unwrap();
    let base = |kind: &str, point, priority, policy| {
        Some(ListedBase { kind: kind.to_owned(), point: Some(point), priority, policy })
    };
    let expected = [
        ("input", base("filter", HookPoint::Input, 3, Policy::Drop)),
        ("marks", base("route", HookPoint::Output, -150, Policy::Accept)),
        ("helper", None),
    ];
    let expected = expected.map(|(name, base)| ListedChain { table: "fw".to_owned(), name: name.to_owned(), base });
    assert_eq!(chains, expected);
    let rules = nftables.rules_with_handles(TableFamily::Inet, "fw").unwrap();
    let is_known = |expression: &Expression| !matches!(expression, Expression::Unknown { .. });
    assert!(rules.len() == 3 && rules.iter().flat_map(|rule| &rule.expressions).all(is_known), "{rules:?}");
    let sets: Vec<_> = nftables.sets(TableFamily::Inet, "fw").unwrap();
    let mut elements = Vec::new();
    nftables
        .elements_of_all(TableFamily::Inet, "fw", &sets, &mut |_, element| elements.push((element.key, element.data)))
        .unwrap();
    elements.sort_by(|one, other| one.0.cmp(&other.0));
    let verdict = |verdict| ElementData::Verdict(verdict);
    assert_eq!(elements, [(vec![], verdict(Verdict::Drop)), (vec![0, 80], verdict(Verdict::Accept))]);
}

#[test]
fn a_missing_table_is_empty() {
    new_namespace();
    let mut nftables = Nftables::open().unwrap();
    assert_eq!(nftables.chains(Family::V4, TABLE).unwrap(), []);
    assert_eq!(nftables.rules(Family::V4, TABLE).unwrap(), []);
    assert_eq!(nftables.sets(Family::V6, TABLE).unwrap(), []);
    let mut each = |element| panic!("{element:?}");
    let outcome = nftables.elements(Family::V4, TABLE, "services", &mut each);
    outcome.unwrap();
}
