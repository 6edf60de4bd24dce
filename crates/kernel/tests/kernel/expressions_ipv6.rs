//! The longer keys of IPv6: the layout of the registers, and the output of `nft list`.

use std::sync::Arc;

use portolan_kernel::nftables::{
    Batch, ChainKind, Expression, Hook, HookPoint, MetaKey, Nftables, PayloadBase, Register, SetData, SetSpec,
};
use portolan_model::Family;

use crate::common::{new_namespace, run};

const TABLE: &str = "test";
const ADDRESS: u32 = 8;
const PROTOCOL: u32 = 12;
const PORT: u32 = 13;

fn endpoints() -> SetSpec {
    SetSpec {
        key_type: ADDRESS << 12 | PROTOCOL << 6 | PORT,
        key_fields: vec![16, 1, 2],
        data: SetData::Value { data_type: ADDRESS << 6 | PORT, length: 20 },
        ..SetSpec::default()
    }
}

fn rule() -> Vec<Expression> {
    vec![
        Expression::Payload { base: PayloadBase::Network, offset: 24, length: 16, destination: Register(0) },
        Expression::Meta { key: MetaKey::L4Protocol, destination: Register(4) },
        Expression::Payload { base: PayloadBase::Transport, offset: 2, length: 2, destination: Register(5) },
        Expression::Lookup {
            set: Arc::from("endpoints"),
            source: Register(0),
            destination: Some(Register(0)),
            inverted: false,
        },
        Expression::DestinationNat { family: Family::V6, address: Register(0), port: Register(4) },
    ]
}

#[test]
fn a_rule_with_ipv6_keys_comes_back_and_is_listed() {
    new_namespace();
    let hook = Hook { kind: ChainKind::Nat, point: HookPoint::Prerouting, priority: -100 };
    let mut batch = Batch::new();
    batch.add_table(Family::V6, TABLE);
    batch.add_chain(Family::V6, TABLE, "nat", Some(&hook));
    batch.add_set(Family::V6, TABLE, "endpoints", &endpoints());
    batch.add_rule(Family::V6, TABLE, "nat", &rule(), None);
    let mut nftables = Nftables::open().unwrap();
    nftables.commit(batch).unwrap();
    let rules = nftables.rules(Family::V6, TABLE).unwrap();
    assert_eq!(rules, [("nat".to_owned(), rule())]);
    let sets = nftables.sets(Family::V6, TABLE).unwrap();
    assert_eq!(sets, [("endpoints".to_owned(), endpoints())]);
    let listed = run("nft", &["list", "table", "ip6", TABLE]);
    let line = "dnat ip6 to ip6 daddr . meta l4proto . th dport map @endpoints";
    assert!(listed.contains(line), "{listed}");
}
