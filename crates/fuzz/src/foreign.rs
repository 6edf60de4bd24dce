//! nf_tables rules of other programs, run on packets: any chains, rules and sets, also those that no kernel accepts. The
//! paths of a packet are bounded, and their shares add up.

use std::sync::{Arc, LazyLock};

use portolan_dataplane::machine::{Base, Chain, OnError, Rule, Ruleset, Set, Table};
use portolan_dataplane::walk::{Branch, Budget, ChainKind, Hook, NoRules, walk_within};
use portolan_kernel::nftables::{
    ConntrackKey, DynsetOperation, Element, ElementData, Expression, FibAddress, MetaKey, Numbers, Operator,
    PayloadBase, Policy, Register, SetSpec, Verdict,
};
use portolan_model::Family;
use portolan_plan::{Plan, plan};

use crate::cluster::{config, example, packet};
use crate::dice::Dice;

/// Much less than for an answer, so that many inputs are run.
const STEPS: usize = 500;
const COPIED: usize = 200 * size_of::<Branch>();
const MOST_PACKETS: usize = 3;

static PLAN: LazyLock<Plan> = LazyLock::new(|| plan(&example(), &Plan::default(), &config()));

/// The first bytes are packets; the others are tables.
pub(crate) fn foreign_rules(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let packets: Vec<_> = (0..=dice.below(MOST_PACKETS as u8)).map(|_| packet(&mut dice)).collect();
    let tables = (0..=dice.below(3)).map(|number| table(&mut dice, number)).collect();
    let rules = Ruleset { tables };
    rules.tables.iter().for_each(|table| drop(table.unsupported()));
    for packet in &packets {
        let budget = Budget::new(STEPS, COPIED);
        let outcome = walk_within(&budget, &NoRules, &rules, &PLAN.node, packet);
        let share: f64 = outcome.endings.iter().map(|ending| ending.share).sum();
        assert!((share - 1.0).abs() < 1e-6, "{packet}: the shares of {} ends are {share}", outcome.endings.len());
        assert!(outcome.endings.len() <= COPIED / size_of::<Branch>() + 1, "{packet}: {} ends", outcome.endings.len());
    }
}

fn table(dice: &mut Dice<'_>, number: u8) -> Table {
    const FAMILIES: [&[Family]; 3] = [&Family::BOTH, &Family::BOTH, &[Family::V4]];
    let on_error = dice.pick(&[OnError::Skip, OnError::Skip, OnError::End]);
    let mut table = Table::new(format!("table inet t{number}"), dice.pick(&FAMILIES), on_error);
    for _ in 0..dice.below(4) {
        let name = set_name(dice);
        table.sets.insert(name, set(dice));
    }
    for _ in 0..=dice.below(8) {
        let chain = Chain { base: base(dice), rules: dice.several(12, rule) };
        table.chains.insert(chain_name(dice), chain);
    }
    table
}

fn chain_name(dice: &mut Dice<'_>) -> Arc<str> {
    format!("c{}", dice.below(10)).into()
}

fn set_name(dice: &mut Dice<'_>) -> Arc<str> {
    dice.pick(&["ports", "__set0", "map"]).into()
}

fn base(dice: &mut Dice<'_>) -> Option<Base> {
    const HOOKS: [Hook; 5] = [Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting];
    let kind = dice.pick(&[None, Some(ChainKind::Filter), Some(ChainKind::Nat)])?;
    let hook = dice.pick(&HOOKS);
    let priority = i32::from(dice.byte()) * 4 - 300;
    Some(Base { hook, kind, priority, policy: dice.pick(&[Policy::Accept, Policy::Accept, Policy::Drop]) })
}

fn set(dice: &mut Dice<'_>) -> Set {
    let fields = dice.several(3, |dice| dice.pick(&[4, 2, 1, 16, 0, 60]));
    let spec = SetSpec { key_fields: fields, interval: dice.one_in(2), ..SetSpec::default() };
    let timeout = dice.pick(&[None, None, Some(60_000), Some(u64::MAX)]);
    let mut set = if dice.one_in(4) { Set::of_clients(&spec, timeout) } else { Set::new(&spec, timeout) };
    for _ in 0..dice.below(5) {
        set.add(element(dice));
    }
    set
}

fn element(dice: &mut Dice<'_>) -> Element {
    let key = value(dice);
    let key_end = dice.one_in(3).then(|| value(dice));
    let data = match dice.below(3) {
        0 => ElementData::None,
        1 => ElementData::Value(value(dice)),
        _ => ElementData::Verdict(verdict(dice)),
    };
    Element { key, key_end, data, comment: None }
}

/// Values that packets have, and any others.
fn value(dice: &mut Dice<'_>) -> Vec<u8> {
    let mut value = match dice.below(8) {
        0 => vec![0, 80],
        1 => vec![10, 96, 0, 1 + dice.below(4)],
        2 => vec![10, 244, 1, 2 + dice.below(4)],
        3 => vec![6],
        4 => vec![dice.below(16), 0, 0, 0],
        5 => b"lo\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
        6 => Vec::new(),
        _ => dice.several(20, Dice::byte),
    };
    if dice.one_in(6) {
        value.resize(value.len().next_multiple_of(4), 0);
    }
    value
}

fn verdict(dice: &mut Dice<'_>) -> Verdict {
    match dice.below(8) {
        0 => Verdict::Accept,
        1 => Verdict::Drop,
        2 => Verdict::Return,
        3 => Verdict::Continue,
        4 => Verdict::Goto(chain_name(dice)),
        _ => Verdict::Jump(chain_name(dice)),
    }
}

fn register(dice: &mut Dice<'_>) -> Register {
    dice.pick(&[Register(0), Register(0), Register(0), Register(1), Register(4), Register(15), Register::VERDICT])
}

/// Most rules are a condition and a verdict; some are any expressions.
fn rule(dice: &mut Dice<'_>) -> Rule {
    let mut expressions = match dice.below(4) {
        0 => dice.several(5, expression),
        1 => vec![draw(dice), compare(dice)],
        _ => vec![load(dice), if dice.one_in(2) { look_up(dice) } else { compare(dice) }],
    };
    expressions.extend((!dice.one_in(4)).then(|| Expression::Verdict(verdict(dice))));
    Rule { handle: dice.one_in(2).then(|| u64::from(dice.byte())), expressions }
}

fn load(dice: &mut Dice<'_>) -> Expression {
    const CONNTRACK: [ConntrackKey; 11] = [
        ConntrackKey::State,
        ConntrackKey::Direction,
        ConntrackKey::Status,
        ConntrackKey::Protocol,
        ConntrackKey::OriginalDestination4,
        ConntrackKey::OriginalDestination6,
        ConntrackKey::OriginalDestinationPort,
        ConntrackKey::ReplySource4,
        ConntrackKey::ReplySource6,
        ConntrackKey::ReplySourcePort,
        ConntrackKey::Id,
    ];
    let destination = register(dice);
    match dice.below(4) {
        0 => {
            let base = dice.pick(&[PayloadBase::Network, PayloadBase::Transport]);
            let offset = dice.pick(&[16, 12, 2, 0, 9, 6, 8, 24, u32::MAX]);
            Expression::Payload { base, offset, length: dice.pick(&[4, 2, 1, 16, 3, 0, u32::MAX]), destination }
        }
        1 => Expression::Meta { key: meta(dice), destination },
        2 => Expression::Conntrack { key: dice.pick(&CONNTRACK), destination },
        _ => Expression::Fib { address: dice.pick(&[FibAddress::Source, FibAddress::Destination]), destination },
    }
}

fn meta(dice: &mut Dice<'_>) -> MetaKey {
    dice.pick(&[
        MetaKey::Mark,
        MetaKey::L4Protocol,
        MetaKey::NetworkProtocol,
        MetaKey::EtherType,
        MetaKey::InputInterface,
        MetaKey::InputInterfaceName,
        MetaKey::OutputInterface,
        MetaKey::OutputInterfaceName,
    ])
}

fn compare(dice: &mut Dice<'_>) -> Expression {
    const OPERATORS: [Operator; 6] = [
        Operator::Equal,
        Operator::NotEqual,
        Operator::Less,
        Operator::LessOrEqual,
        Operator::Greater,
        Operator::GreaterOrEqual,
    ];
    Expression::Compare { source: register(dice), operator: dice.pick(&OPERATORS), value: value(dice) }
}

fn look_up(dice: &mut Dice<'_>) -> Expression {
    let destination = dice.pick(&[None, Some(Register::VERDICT), Some(Register(1))]);
    Expression::Lookup { set: set_name(dice), source: register(dice), destination, inverted: dice.one_in(4) }
}

fn draw(dice: &mut Dice<'_>) -> Expression {
    let modulus = dice.pick(&[2, 3, 10, 100, 1, 0, 65_536, 65_537, u32::MAX]);
    let (destination, offset) = (register(dice), dice.pick(&[0, 1, u32::MAX]));
    match dice.one_in(2) {
        true => {
            let numbers = dice.pick(&[Numbers::Random, Numbers::InTurn]);
            Expression::NumberGenerator { numbers, destination, modulus, offset }
        }
        false => Expression::Hash { source: Register(0), length: 4, destination, modulus, seed: 0, offset },
    }
}

fn expression(dice: &mut Dice<'_>) -> Expression {
    const UNKNOWN: [&str; 5] = ["limit", "log", "notrack", "match comment", "quota"];
    match dice.below(14) {
        0 => load(dice),
        1 => compare(dice),
        2 => look_up(dice),
        3 => draw(dice),
        4 => Expression::Range { source: register(dice), inverted: dice.one_in(2), from: value(dice), to: value(dice) },
        5 => Expression::Bitwise {
            source: register(dice),
            destination: register(dice),
            mask: value(dice),
            xor: value(dice),
        },
        6 => Expression::Immediate { destination: register(dice), value: value(dice) },
        7 => Expression::SetMeta { key: meta(dice), source: register(dice) },
        8 => Expression::DestinationNat {
            family: dice.pick(&Family::BOTH),
            address: register(dice),
            port: register(dice),
        },
        9 => Expression::Masquerade { fully_random: true },
        10 => Expression::Reject { kind: 0, code: 3 },
        11 => Expression::Counter,
        12 => Expression::Dynset {
            operation: DynsetOperation::Update,
            set: set_name(dice),
            key: register(dice),
            data: None,
            timeout_milliseconds: None,
            counts: false,
        },
        _ => Expression::Unknown { name: dice.pick(&UNKNOWN).into() },
    }
}
