//! Rules, built as the text that `nft list` prints and as the expressions that the kernel runs.

use std::fmt;
use std::sync::Arc;

use portolan_kernel::nftables::{
    ConntrackKey, DynsetOperation, Expression, FibAddress, MetaKey, Operator, Register, Verdict,
};
use portolan_model::{Family, IpNet};

use super::bytes::octets;
use super::dispatch_key::PADDING;
use super::fields::{Draw, ENDPOINT, Field, VIP, join, load_from};
use super::sets::{PAIR, SetName};

/// Two rules are the same when the kernel does the same for both.
#[derive(Clone, Debug)]
pub struct Rule {
    pub text: String,
    pub expressions: Vec<Expression>,
    /// What `nft` prints behind the rule, where its own text misleads.
    pub comment: Option<String>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.expressions == other.expressions
    }
}

impl Eq for Rule {}

impl Rule {
    /// A rule that the kernel holds, in the kernel's own terms.
    pub(super) fn read(expressions: Vec<Expression>) -> Self {
        Self { text: format!("{expressions:?}"), expressions, comment: None }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)?;
        self.comment.iter().try_for_each(|comment| write!(formatter, " comment \"{comment}\""))
    }
}

/// Builds one rule, word by word.
pub(super) struct RuleBuilder {
    family: Family,
    text: Vec<String>,
    expressions: Vec<Expression>,
}

pub(super) fn rule(family: Family) -> RuleBuilder {
    RuleBuilder { family, text: Vec::new(), expressions: Vec::new() }
}

const FIRST: Register = Register(0);
const BEHIND_PADDING: Register = Register(1);
/// `RTN_LOCAL`, and the bits of `ct state new` and `ct status dnat`.
const LOCAL_ADDRESS: u32 = 2;
const STATE_NEW: u32 = 8;
const STATUS_DNAT: u32 = 32;
const INTERFACE_NAME_LENGTH: usize = 16;
/// The first interface of every network namespace.
const LOOPBACK_INTERFACE: u32 = 1;
const ICMP_UNREACHABLE: u32 = 0;

impl RuleBuilder {
    /// Follows the verdict that the map has for these fields.
    pub(super) fn verdict_map(self, fields: &[Field], set: SetName) -> Rule {
        let text = format!("{} vmap @{}", join(fields, self.family), set.name());
        let lookup = lookup(set.name(), FIRST, Some(Register::VERDICT));
        self.load(fields, None).step(text, [lookup]).done()
    }

    /// Dispatches by the key that the map has for these fields. `nft` up to 1.0 cannot print a lookup by what another one has
    /// found (it aborts, and with it the listing of all tables). It does print this: the key is put over the
    /// fields, where `nft` still takes the second lookup for one by fields. The comment names the map.
    pub(super) fn dispatch_by(self, fields: &[Field], set: SetName) -> Rule {
        let shown =
            if self.family == Family::V4 { join(VIP, self.family) } else { Field::Destination.text(self.family) };
        let text = format!("{shown} vmap @{}", SetName::Ways.name());
        let find = lookup(SetName::Ways.name(), BEHIND_PADDING, Some(Register::VERDICT));
        let rule = self.find_dispatch_key(fields, set).step(text, [find]).done();
        Rule { comment: Some(format!("by map {}", set.name())), ..rule }
    }

    /// Continues only if the map has a dispatch key for these fields.
    pub(super) fn has_dispatch_key(self, fields: &[Field], set: SetName) -> Self {
        let text = format!("{} map @{} 0x0 [invalid type]", join(fields, self.family), set.name());
        let compare = Expression::Compare { source: FIRST, operator: Operator::Equal, value: PADDING.to_vec() };
        self.find_dispatch_key(fields, set).step(text, [compare])
    }

    /// Leaves the fields of a VIP frontend in the words behind the first, and then the dispatch key over them all.
    fn find_dispatch_key(self, fields: &[Field], set: SetName) -> Self {
        let skipped: u32 =
            VIP.iter().filter(|field| !fields.contains(field)).map(|field| field.words(self.family)).sum();
        let key = Register(BEHIND_PADDING.0 + skipped as u8);
        let load = load_from(BEHIND_PADDING.0, VIP, self.family);
        self.step(String::new(), load.into_iter().chain([lookup(set.name(), key, Some(FIRST))]))
    }

    /// Continues only if the set has these fields.
    pub(super) fn member(self, fields: &[Field], set: SetName) -> Self {
        let text = format!("{} @{}", join(fields, self.family), set.name());
        self.load(fields, None).step(text, [lookup(set.name(), FIRST, None)])
    }

    /// Continues only if the packet goes to an endpoint of the pool with this number.
    pub(super) fn member_of(self, pool: u32) -> Self {
        let (draw, set) = (Draw::constant(pool), SetName::Members.name());
        let text = format!("{} . {} @{set}", join(ENDPOINT, self.family), draw.text(self.family));
        self.load(ENDPOINT, Some(draw)).step(text, [lookup(set, FIRST, None)])
    }

    /// Sends the packet to the endpoint that the map has for these fields.
    pub(super) fn translate(self, fields: &[Field], draw: Option<Draw>, map: &str) -> Rule {
        let family = self.family;
        let mut words: Vec<String> = fields.iter().map(|field| field.text(family)).collect();
        words.extend(draw.map(|draw| draw.text(family)));
        let text = format!("dnat {} to {} map @{map}", family.nft_name(), words.join(" . "));
        let port = Register(ENDPOINT[0].words(family) as u8);
        let translation = Expression::DestinationNat { family, address: FIRST, port };
        self.load(fields, draw).step(text, [lookup(map, FIRST, Some(FIRST)), translation]).done()
    }

    /// Records where the packet is going, for the next connection of the same client. An entry that exists keeps its
    /// endpoint and begins its time again.
    pub(super) fn learn(mut self, map: &str, seconds: u32) -> Rule {
        let family = self.family;
        let behind_client = Register(Field::Source.words(family) as u8);
        let data = load_from(behind_client.0, ENDPOINT, family);
        self = self.load(&[Field::Source], None).step(String::new(), data);
        let (key, value) = (Field::Source.text(family), join(ENDPOINT, family));
        let text = format!("update @{map} {{ {key} timeout {} : {value} }}", duration(seconds));
        let update = Expression::Dynset {
            operation: DynsetOperation::Update,
            set: map.into(),
            key: FIRST,
            data: Some(behind_client),
            timeout_milliseconds: Some(u64::from(seconds) * 1000),
            counts: false,
        };
        self.step(text, [update]).done()
    }

    /// Counts the packet in the element of its connection's two ends, which the first packet adds.
    pub(super) fn count_in(self, set: SetName) -> Rule {
        let text = format!("add @{} {{ {} counter }}", set.name(), join(PAIR, self.family));
        let count = Expression::Dynset {
            operation: DynsetOperation::Add,
            set: set.name().into(),
            key: FIRST,
            data: None,
            timeout_milliseconds: None,
            counts: true,
        };
        self.load(PAIR, None).step(text, [count]).done()
    }

    /// Counts the packet, whatever it is.
    pub(super) fn counter(self) -> Self {
        self.step("counter", [Expression::Counter])
    }

    pub(super) fn source_in(self, range: &IpNet) -> Self {
        self.address_in(Field::Source, range, Operator::Equal)
    }

    pub(super) fn destination_in(self, range: &IpNet) -> Self {
        self.address_in(Field::Destination, range, Operator::Equal)
    }

    pub(super) fn destination_not_in(self, range: &IpNet) -> Self {
        self.address_in(Field::Destination, range, Operator::NotEqual)
    }

    fn address_in(self, field: Field, range: &IpNet, operator: Operator) -> Self {
        let (network, mask) = (octets(range.network()), octets(range.netmask()));
        let is_single = range.prefix_len() == range.max_prefix_len();
        let shown = if is_single { range.addr().to_string() } else { range.trunc().to_string() };
        let not = if operator == Operator::NotEqual { "!= " } else { "" };
        let text = format!("{} {not}{shown}", field.text(self.family));
        let masked = Expression::Bitwise { source: FIRST, destination: FIRST, xor: vec![0; mask.len()], mask };
        let load = field.load(self.family, FIRST);
        let compare = Expression::Compare { source: FIRST, operator, value: network };
        let masked = (!is_single).then_some(masked);
        self.step(text, [load].into_iter().chain(masked).chain([compare]))
    }

    pub(super) fn interface(self, name: &str) -> Self {
        let mut value = name.as_bytes().to_vec();
        value.resize(INTERFACE_NAME_LENGTH, 0);
        self.interface_bytes(format!("iifname \"{name}\""), value)
    }

    pub(super) fn interface_prefix(self, prefix: &str) -> Self {
        self.interface_bytes(format!("iifname \"{prefix}*\""), prefix.as_bytes().to_vec())
    }

    fn interface_bytes(self, text: String, value: Vec<u8>) -> Self {
        let load = Expression::Meta { key: MetaKey::InputInterfaceName, destination: FIRST };
        self.step(text, [load, Expression::Compare { source: FIRST, operator: Operator::Equal, value }])
    }

    pub(super) fn source_is_local(self) -> Self {
        self.local_address("fib saddr type local", FibAddress::Source)
    }

    pub(super) fn destination_is_local(self) -> Self {
        self.local_address("fib daddr type local", FibAddress::Destination)
    }

    fn local_address(self, text: &str, address: FibAddress) -> Self {
        let load = Expression::Fib { address, destination: FIRST };
        let value = LOCAL_ADDRESS.to_ne_bytes().to_vec();
        self.step(text, [load, Expression::Compare { source: FIRST, operator: Operator::Equal, value }])
    }

    /// Continues only with packets that did not come over the loopback interface: those were seen when they were sent.
    pub(super) fn not_looped_back(self) -> Self {
        let load = Expression::Meta { key: MetaKey::InputInterface, destination: FIRST };
        let value = LOOPBACK_INTERFACE.to_ne_bytes().to_vec();
        self.step("iif != \"lo\"", [load, Expression::Compare { source: FIRST, operator: Operator::NotEqual, value }])
    }

    /// Continues only with packets from the client.
    pub(super) fn requests(self) -> Self {
        self.direction("ct direction original", 0)
    }

    /// Continues only with packets to the client.
    pub(super) fn replies(self) -> Self {
        self.direction("ct direction reply", 1)
    }

    fn direction(self, text: &str, direction: u8) -> Self {
        let load = Expression::Conntrack { key: ConntrackKey::Direction, destination: FIRST };
        let compare = Expression::Compare { source: FIRST, operator: Operator::Equal, value: vec![direction] };
        self.step(text, [load, compare])
    }

    pub(super) fn new_connection(self) -> Self {
        self.conntrack_bit("ct state new", ConntrackKey::State, STATE_NEW)
    }

    pub(super) fn translated(self) -> Self {
        self.conntrack_bit("ct status dnat", ConntrackKey::Status, STATUS_DNAT)
    }

    fn conntrack_bit(self, text: &str, key: ConntrackKey, bit: u32) -> Self {
        let load = Expression::Conntrack { key, destination: FIRST };
        let compare = Expression::Compare { source: FIRST, operator: Operator::NotEqual, value: vec![0; 4] };
        self.step(text, [load, mask_word(bit, 0), compare])
    }

    pub(super) fn set_mark(self, mark: u32) -> Self {
        let text = format!("meta mark set meta mark | {mark:#010x}");
        self.rewrite_mark(text, mask_word(!mark, mark))
    }

    /// Continues only with marked packets, and clears the mark.
    pub(super) fn take_mark(self, mark: u32) -> Self {
        let load = Expression::Meta { key: MetaKey::Mark, destination: FIRST };
        let value = mark.to_ne_bytes().to_vec();
        let compare = Expression::Compare { source: FIRST, operator: Operator::Equal, value };
        self.step(format!("meta mark & {mark:#010x} == {mark:#010x}"), [load, mask_word(mark, 0), compare])
            .rewrite_mark(format!("meta mark set meta mark ^ {mark:#010x}"), mask_word(!0, mark))
    }

    fn rewrite_mark(self, text: String, change: Expression) -> Self {
        let load = Expression::Meta { key: MetaKey::Mark, destination: FIRST };
        self.step(text, [load, change, Expression::SetMeta { key: MetaKey::Mark, source: FIRST }])
    }

    pub(super) fn masquerade(self) -> Rule {
        self.step("masquerade fully-random", [Expression::Masquerade { fully_random: true }]).done()
    }

    pub(super) fn reject(self) -> Rule {
        let code = if self.family == Family::V4 { 3 } else { 4 };
        self.step("reject", [Expression::Reject { kind: ICMP_UNREACHABLE, code }]).done()
    }

    pub(super) fn drop(self) -> Rule {
        self.step("drop", [Expression::Verdict(Verdict::Drop)]).done()
    }

    pub(super) fn go_to(self, chain: &Arc<str>) -> Rule {
        self.step(format!("goto {chain}"), [Expression::Verdict(Verdict::Goto(chain.clone()))]).done()
    }

    pub(super) fn jump(self, chain: &Arc<str>) -> Rule {
        self.step(format!("jump {chain}"), [Expression::Verdict(Verdict::Jump(chain.clone()))]).done()
    }

    pub(super) fn done(self) -> Rule {
        let text: Vec<String> = self.text.into_iter().filter(|word| !word.is_empty()).collect();
        Rule { text: text.join(" "), expressions: self.expressions, comment: None }
    }

    fn load(mut self, fields: &[Field], draw: Option<Draw>) -> Self {
        let words: u32 = fields.iter().map(|field| field.words(self.family)).sum();
        self.expressions.extend(load_from(0, fields, self.family));
        if let Some(draw) = draw {
            self.expressions.extend(draw.load(self.family, Register(words as u8)));
        }
        self
    }

    fn step(mut self, text: impl Into<String>, expressions: impl IntoIterator<Item = Expression>) -> Self {
        self.text.push(text.into());
        self.expressions.extend(expressions);
        self
    }
}

fn lookup(set: &str, source: Register, destination: Option<Register>) -> Expression {
    Expression::Lookup { set: set.into(), source, destination, inverted: false }
}

fn mask_word(mask: u32, xor: u32) -> Expression {
    let (mask, xor) = (mask.to_ne_bytes().to_vec(), xor.to_ne_bytes().to_vec());
    Expression::Bitwise { source: FIRST, destination: FIRST, mask, xor }
}

/// A time span as `nft` prints it: `3h`, `1m30s`.
fn duration(seconds: u32) -> String {
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect()
}
