//! The machine on small tables: what it runs, and what it refuses to guess.

use std::sync::Arc;

use portolan_kernel::nftables::{
    Element, ElementData, Expression, MetaKey, Numbers, Operator, PayloadBase, Policy, Register, SetSpec,
    Verdict as Code,
};
use portolan_model::{Family, Protocol};
use portolan_plan::{NodePlan, Packet};

use super::{Base, Chain, OnError, Rule, Ruleset, Set, Table};
use crate::walk::{Budget, ChainKind, End, Ending, Hook, NoRules, Outcome, walk, walk_within};

const FIRST: Register = Register(0);

fn packet() -> Packet {
    Packet {
        source: "192.0.2.1".parse().expect("an address"),
        interface: None,
        destination: "10.96.0.10".parse().expect("an address"),
        port: 80,
        protocol: Protocol::Tcp,
        is_from_socket: false,
    }
}

fn load(base: PayloadBase, offset: u32, length: u32) -> Expression {
    Expression::Payload { base, offset, length, destination: FIRST }
}

fn equals(value: &[u8]) -> Expression {
    Expression::Compare { source: FIRST, operator: Operator::Equal, value: value.to_vec() }
}

fn interface(name: &str) -> Vec<Expression> {
    let mut value = name.as_bytes().to_vec();
    value.resize(16, 0);
    vec![Expression::Meta { key: MetaKey::InputInterfaceName, destination: FIRST }, equals(&value)]
}

fn drop_if(conditions: impl IntoIterator<Item = Expression>) -> Vec<Expression> {
    conditions.into_iter().chain([Expression::Verdict(Code::Drop)]).collect()
}

/// A table whose only chain sees what is forwarded.
fn table(on_error: OnError, policy: Policy, rules: Vec<Vec<Expression>>) -> Table {
    let mut table = Table::new("table ip test", &[Family::V4], on_error);
    let base = Base { hook: Hook::Forward, kind: ChainKind::Filter, priority: 0, policy };
    let rules = rules.into_iter().map(|expressions| Rule { handle: Some(7), expressions }).collect();
    table.chains.insert("forward".into(), Chain { base: Some(base), rules });
    let mut set = Set::new(&SetSpec { key_fields: vec![2], ..SetSpec::default() }, None);
    set.add(Element { key: vec![0, 80], key_end: None, data: ElementData::None, comment: None });
    table.sets.insert("ports".into(), set);
    table
}

fn run(table: Table) -> Outcome {
    walk(&Ruleset { tables: vec![table] }, &NoRules, &NodePlan::default(), &packet())
}

/// The only end, and the words of the rule behind it.
fn end(rules: Vec<Vec<Expression>>) -> (End, String) {
    let outcome = run(table(OnError::End, Policy::Accept, rules));
    let [Ending { end, stopped_by, .. }] = &outcome.endings[..] else { panic!("{outcome:?}") };
    (*end, stopped_by.as_ref().map_or_else(String::new, ToString::to_string))
}

fn lookup(inverted: bool) -> Expression {
    Expression::Lookup { set: Arc::from("ports"), source: FIRST, destination: None, inverted }
}

#[test]
fn a_lookup_can_be_inverted() {
    let port = || load(PayloadBase::Transport, 2, 2);
    assert_eq!(end(vec![drop_if([port(), lookup(false)])]).0, End::Drop);
    assert_eq!(end(vec![drop_if([port(), lookup(true)])]).0, End::Pass);
}

/// The source port is not the destination port, and the question does not contain it.
#[test]
fn an_offset_that_is_not_known_is_an_error() {
    let (end_of, words) = end(vec![drop_if([load(PayloadBase::Transport, 0, 2), equals(&[0, 80])])]);
    assert_eq!(end_of, End::Unknown);
    assert_eq!(
        words,
        "table ip test, chain forward, handle 7: th sport 80 drop: the port of the client is not supported"
    );
    assert_eq!(end(vec![drop_if([load(PayloadBase::Network, 12, 3), equals(&[192, 0, 2])])]).0, End::Drop);
    assert_eq!(end(vec![drop_if([load(PayloadBase::Network, 14, 4), equals(&[2, 1, 10, 96])])]).0, End::Drop);
    assert_eq!(end(vec![drop_if([load(PayloadBase::Network, 8, 1), equals(&[64])])]).0, End::Unknown, "time to live");
}

#[test]
fn an_expression_that_is_not_known_is_an_error_only_where_it_is_reached() {
    let limit = || Expression::Unknown { name: "limit".into() };
    assert_eq!(end(vec![drop_if([limit()])]).0, End::Unknown);
    assert_eq!(end(vec![drop_if([load(PayloadBase::Transport, 2, 2), equals(&[0, 81]), limit()])]).0, End::Pass);
    assert_eq!(end(vec![drop_if([Expression::Unknown { name: "log".into() }])]).0, End::Drop);
}

#[test]
fn what_is_missing_is_an_error() {
    assert_eq!(end(vec![vec![Expression::Verdict(Code::Jump("nowhere".into()))]]).0, End::Unknown);
    let missing = Expression::Lookup { set: Arc::from("none"), source: FIRST, destination: None, inverted: true };
    assert_eq!(end(vec![drop_if([missing])]).0, End::Unknown);
    let far = Expression::Compare { source: Register(15), operator: Operator::Equal, value: vec![0; 16] };
    assert_eq!(end(vec![drop_if([far])]).0, End::Unknown, "a register behind the last one");
}

/// Without an interface in the question, rules about the loopback interface still have an answer; others have one only in
/// tables of ours, where the plan decides in the same way.
#[test]
fn an_interface_that_is_not_given_is_not_guessed() {
    assert_eq!(end(vec![drop_if(interface("lo"))]).0, End::Pass);
    assert_eq!(end(vec![drop_if(interface("eth0"))]).0, End::Pass);
    let foreign = |name| run(table(OnError::Skip, Policy::Accept, vec![drop_if(interface(name))]));
    assert!(foreign("lo").notes.is_empty());
    let notes = foreign("eth0").notes;
    assert!(
        notes.iter().any(|note| note.contains("the interface that the packet arrives on is not known")),
        "{notes:?}"
    );
    let index = |index: u32| {
        let load = Expression::Meta { key: MetaKey::InputInterface, destination: FIRST };
        end(vec![drop_if([load, equals(&index.to_ne_bytes())])]).0
    };
    assert_eq!((index(1), index(2)), (End::Pass, End::Unknown));
}

/// The rule that is skipped may have accepted the packet, so that the drop behind it is no more than possible.
#[test]
fn a_drop_behind_a_skipped_rule_is_not_certain() {
    let unknown = || Expression::Unknown { name: "limit".into() };
    let accept = || vec![unknown(), Expression::Verdict(Code::Accept)];
    let outcome = |policy, rules| run(table(OnError::Skip, policy, rules));
    let certain = outcome(Policy::Drop, vec![]);
    assert_eq!((certain.endings[0].end, certain.notes.len()), (End::Drop, 0));
    let uncertain = outcome(Policy::Drop, vec![accept()]);
    assert_eq!((uncertain.endings[0].end, uncertain.notes.len()), (End::Pass, 2), "{:?}", uncertain.notes);
    let harmless = outcome(Policy::Accept, vec![accept()]);
    assert_eq!((harmless.endings[0].end, harmless.notes.len()), (End::Pass, 0), "{:?}", harmless.notes);
}

#[test]
fn every_outcome_of_a_draw_is_followed() {
    let draw = Expression::NumberGenerator { numbers: Numbers::Random, destination: FIRST, modulus: 4, offset: 0 };
    let is_zero = equals(&0_u32.to_ne_bytes());
    let outcome = run(table(OnError::End, Policy::Accept, vec![drop_if([draw, is_zero])]));
    let share = |end| outcome.endings.iter().filter(|it| it.end == end).map(|it| it.share).sum::<f64>();
    assert_eq!((share(End::Drop), share(End::Pass)), (0.25, 0.75));
}

fn draw(modulus: u32) -> Expression {
    Expression::NumberGenerator { numbers: Numbers::Random, destination: FIRST, modulus, offset: 0 }
}

fn below(limit: u32) -> Expression {
    Expression::Compare { source: FIRST, operator: Operator::Less, value: limit.to_ne_bytes().to_vec() }
}

/// Each chain jumps ten times to the next one: the kernel accepts ten rules in fifteen chains, which are 10^15 paths.
fn multiplying_jumps(on_error: OnError) -> Table {
    let jump = |number: usize| vec![Expression::Verdict(Code::Jump(format!("chain-{number}").into()))];
    let mut table = table(on_error, Policy::Accept, vec![jump(0)]);
    for number in 0..15 {
        let rules = (0..10).map(|_| Rule { handle: None, expressions: jump(number + 1) }).collect();
        table.chains.insert(format!("chain-{number}").into(), Chain { base: None, rules });
    }
    table.chains.insert("chain-15".into(), Chain::default());
    table
}

/// Two draws in each rule, whose outcomes all differ: 10,000 branches more with each rule.
fn multiplying_draws(on_error: OnError) -> Table {
    let mark = Expression::SetMeta { key: MetaKey::Mark, source: FIRST };
    table(on_error, Policy::Accept, vec![vec![draw(100), mark.clone(), draw(100), mark]; 4])
}

/// A small budget, which takes less time here than that of an answer.
fn run_within(steps: usize, table: Table) -> (bool, Outcome) {
    let budget = Budget::new(steps, 20_000_000);
    let rules = Ruleset { tables: vec![table] };
    let outcome = walk_within(&budget, &rules, &NoRules, &NodePlan::default(), &packet());
    (budget.is_exhausted(), outcome)
}

#[test]
fn jumps_and_draws_that_multiply_are_bounded() {
    for build in [multiplying_jumps, multiplying_draws] {
        let (is_exhausted, outcome) = run_within(100_000, build(OnError::End));
        assert!(is_exhausted && outcome.endings.iter().any(|ending| ending.end == End::Unknown), "{outcome:?}");
        let (is_exhausted, outcome) = run_within(100_000, build(OnError::Skip));
        assert!(is_exhausted && outcome.endings.iter().all(|ending| ending.end == End::Pass));
        let what = "jumps and random numbers lead to more paths than are followed";
        assert!(outcome.notes.iter().any(|note| note.contains(what)), "{:?}", outcome.notes);
        let share: f64 = outcome.endings.iter().map(|ending| ending.share).sum();
        assert!((share - 1.0).abs() < 1e-6, "{share}");
    }
}

/// Rules that count a sample of the packets are no reason to give up.
#[test]
fn draws_without_a_difference_do_not_multiply() {
    let sample = vec![draw(100), below(50), Expression::Counter];
    let mut rules = vec![sample; 100];
    rules.push(drop_if([draw(4), below(1)]));
    let (is_exhausted, outcome) = run_within(100_000, table(OnError::End, Policy::Accept, rules));
    let shares: Vec<(End, f64)> = outcome.endings.iter().map(|ending| (ending.end, ending.share)).collect();
    let [(End::Drop, dropped), (End::Pass, passed)] = shares[..] else { panic!("{shares:?}") };
    assert!((dropped - 0.25).abs() < 1e-6 && (passed - 0.75).abs() < 1e-6 && !is_exhausted, "{shares:?}");
}
