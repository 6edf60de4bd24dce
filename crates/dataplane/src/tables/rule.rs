//! Builds rules word by word, in exactly the form that `iptables-save` prints: rules are compared as text, and the
//! tracer runs the same text.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use portolan_model::{Family, IpNet, Protocol};
use portolan_plan::LocalDetector;

/// What follows `-A CHAIN`. `iptables-save` prints addresses, interfaces and the protocol first, in whatever order they
/// were given.
#[derive(Default)]
pub(crate) struct RuleBuilder {
    source: String,
    destination: String,
    interface: String,
    protocol: String,
    rest: String,
}

pub(crate) type Rule = Arc<str>;

/// The kernel truncates comments at 255 bytes.
const LONGEST_COMMENT: usize = 255;
const PROBABILITY_UNIT: f64 = 2_147_483_648.0;

pub(crate) fn rule() -> RuleBuilder {
    RuleBuilder::default()
}

impl RuleBuilder {
    pub(crate) fn source(mut self, range: IpNet) -> Self {
        self.source = format!("-s {} ", shown(range));
        self
    }

    pub(crate) fn source_not(mut self, range: IpNet) -> Self {
        self.source = format!("! -s {} ", shown(range));
        self
    }

    pub(crate) fn destination(mut self, range: IpNet) -> Self {
        self.destination = format!("-d {} ", shown(range));
        self
    }

    pub(crate) fn destination_not(mut self, range: IpNet) -> Self {
        self.destination = format!("! -d {} ", shown(range));
        self
    }

    /// Matches the protocol; ports are matched at the position of their own call.
    pub(crate) fn protocol(mut self, protocol: Protocol) -> Self {
        self.protocol = format!("-p {protocol} ");
        self
    }

    pub(crate) fn port(self, protocol: Protocol, port: u16) -> Self {
        self.words(&format!("-m {protocol} --dport {port}"))
    }

    /// Matches packets to a Service address, with the comment where `iptables-save` prints it.
    pub(crate) fn at_service(self, address: IpAddr, protocol: Protocol, port: u16, comment: &str) -> Self {
        self.destination(address.into()).at_port(protocol, port, comment)
    }

    /// Matches packets to this port at any address.
    pub(crate) fn at_port(self, protocol: Protocol, port: u16, comment: &str) -> Self {
        self.protocol(protocol).comment(comment).port(protocol, port)
    }

    /// Matches pods only, or other sources only.
    pub(crate) fn of_pods(mut self, detector: &LocalDetector, wanted: bool) -> Self {
        let not = if wanted { "" } else { "! " };
        match detector {
            LocalDetector::Source(range) if wanted => return self.source(*range),
            LocalDetector::Source(range) => return self.source_not(*range),
            LocalDetector::Interface(name) => self.interface = format!("{not}-i {} ", interface(name)),
            LocalDetector::InterfacePrefix(prefix) => {
                self.interface = format!("{not}-i {} ", interface(&format!("{prefix}+")));
            }
        }
        self
    }

    pub(crate) fn comment(self, text: &str) -> Self {
        let text = &text[..text.floor_char_boundary(LONGEST_COMMENT)];
        self.words(&format!("-m comment --comment {}", quoted(text)))
    }

    /// Counts into an nfacct object. `iptables-save` prints two blanks.
    pub(crate) fn counted(self, counter: &str) -> Self {
        self.words(&format!("-m nfacct --nfacct-name  {counter}"))
    }

    pub(crate) fn new_connections(self) -> Self {
        self.words("-m conntrack --ctstate NEW")
    }

    pub(crate) fn sent_by_node(self) -> Self {
        self.words("-m addrtype --src-type LOCAL")
    }

    pub(crate) fn sent_to_node(self) -> Self {
        self.words("-m addrtype --dst-type LOCAL")
    }

    /// Matches one packet in `count`, as kube-proxy writes it: ten digits, which the kernel rounds to a multiple of
    /// 2⁻³¹.
    pub(crate) fn one_in(self, count: usize) -> Self {
        let written: f64 = format!("{:.10}", 1.0 / count as f64).parse().expect("a printed number can be read");
        let kept = (written * PROBABILITY_UNIT).round() / PROBABILITY_UNIT;
        self.words(&format!("-m statistic --mode random --probability {kept:.11}"))
    }

    /// Matches one packet in `count`, beginning with the first, of those that reach the rule.
    pub(crate) fn every(self, count: usize) -> Self {
        self.words(&format!("-m statistic --mode nth --every {count} --packet 0"))
    }

    /// Matches clients that are in this list since at most so many seconds.
    pub(crate) fn remembered(self, family: Family, list: &str, seconds: u32) -> Self {
        let mask = host_mask(family);
        self.words(&format!("-m recent --rcheck --seconds {seconds} --reap --name {list} --mask {mask} --rsource"))
    }

    pub(crate) fn remember(self, family: Family, list: &str) -> Self {
        self.words(&format!("-m recent --set --name {list} --mask {} --rsource", host_mask(family)))
    }

    pub(crate) fn words(mut self, words: &str) -> Self {
        _ = write!(self.rest, "{words} ");
        self
    }

    pub(crate) fn jump(self, chain: &str) -> Rule {
        self.words(&format!("-j {chain}")).done()
    }

    pub(crate) fn reject(self, family: Family) -> Rule {
        let kind = if family == Family::V4 { "icmp" } else { "icmp6" };
        self.words(&format!("-j REJECT --reject-with {kind}-port-unreachable")).done()
    }

    pub(crate) fn translate(self, protocol: Protocol, endpoint: SocketAddr) -> Rule {
        self.words(&format!("-m {protocol} -j DNAT --to-destination {endpoint}")).done()
    }

    pub(crate) fn done(self) -> Rule {
        let Self { source, destination, interface, protocol, rest } = self;
        format!("{source}{destination}{interface}{protocol}{rest}").trim_end().into()
    }
}

fn shown(range: IpNet) -> String {
    range.trunc().to_string()
}

fn host_mask(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::from([255; 4]),
        Family::V6 => IpAddr::from([255; 16]),
    }
}

/// Names of interfaces are printed verbatim; they cannot contain blanks or slashes.
fn interface(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_graphic() && !matches!(it, '"' | '\'' | '\\');
    if name.chars().all(is_plain) { name.to_owned() } else { quoted(name) }
}

/// Quotes a word so that nothing in it can end the word or the line: in quotes unless it is plain, quotes and
/// backslashes escaped, and unprintable characters replaced.
fn quoted(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let mut word = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' | '\'' => word.extend(['\\', character]),
            other if other.is_control() => word.push('?'),
            other => word.push(other),
        }
    }
    word + "\""
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::save::parse_save;

    #[test]
    fn probabilities_are_as_listed() {
        for (count, text) in [(3, "0.33333333349"), (2, "0.50000000000"), (7, "0.14285714272")] {
            assert_eq!(&*rule().one_in(count).done(), format!("-m statistic --mode random --probability {text}"));
        }
    }

    #[test]
    fn hostile_words_stay_words() {
        let hostile = "a\" -j ACCEPT\nCOMMIT\n*nat\\' $(x) \u{7f}";
        let text = rule().comment(hostile).jump("DROP");
        assert!(!text.contains('\n'));
        let saved = &parse_save(&format!("*filter\n-A X {text}\nCOMMIT\n"))[0].rules[0];
        assert_eq!(saved.target().as_deref(), Some("DROP"));
        assert_eq!(saved.words()[3], "a\" -j ACCEPT?COMMIT?*nat\\' $(x) ?");
    }
}
