//! One iptables rule: its match and its target.

use std::net::IpAddr;

use portolan_model::{IpNet, Protocol};

use super::save::words;
use super::sets::Sets;
use crate::walk::{Branch, Site, Verdict};

pub(crate) struct Rule {
    conditions: Vec<(bool, Condition)>,
    /// The part by which a rule can be found.
    pub(crate) matching: Matching,
    pub(crate) action: Action,
    pub(crate) comment: String,
    pub(crate) unknown: Option<String>,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Matching {
    pub destination: Option<IpAddr>,
    pub protocol: Option<Protocol>,
    pub port: Option<u16>,
}

/// Each is stored with a flag for negation.
#[derive(Clone, Debug)]
enum Condition {
    Source(IpNet),
    Destination(IpNet),
    Protocol(Option<Protocol>),
    Port(u16),
    SourceIsLocal,
    DestinationIsLocal,
    Mark {
        value: u32,
        mask: u32,
    },
    /// Whether NEW is among the states.
    New(bool),
    Interface(String),
    /// These parts of the packet are in the set.
    InSet {
        set: String,
        parts: String,
    },
    /// Matches with this probability, or so many packets of all.
    Random(f64),
    /// A client that was seen within so many seconds. The traced packet belongs to a new client.
    Remembered(u32),
}

pub(crate) enum Action {
    None,
    Jump(String),
    Goto(String),
    Return,
    Mark { value: u32, mask: u32 },
    End(Verdict),
}

impl Rule {
    /// A word that is not supported is kept in `unknown`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut rule = Self {
            conditions: Vec::new(),
            matching: Matching::default(),
            action: Action::None,
            comment: String::new(),
            unknown: None,
        };
        let words = words(text);
        let mut words = words.iter().map(String::as_str);
        let mut holds = true;
        while let Some(word) = words.next() {
            match word {
                "!" => holds = false,
                "-m" => drop(words.next()),
                _ => {
                    rule.take(word, holds, &mut words);
                    holds = true;
                }
            }
        }
        rule
    }

    fn take<'a>(&mut self, word: &str, holds: bool, words: &mut impl Iterator<Item = &'a str>) {
        match word {
            "--reap" | "--rsource" | "--random-fully" | "--set" => {}
            "--rcheck" => self.conditions.push((holds, Condition::Remembered(0))),
            _ => {
                let value = words.next().unwrap_or_default();
                if word == "--match-set" {
                    let (set, parts) = (value.to_owned(), words.next().unwrap_or_default().to_owned());
                    self.conditions.push((holds, Condition::InSet { set, parts }));
                } else if self.take_pair(word, holds, value).is_none() {
                    self.unknown = Some(format!("{word} {value}"));
                }
            }
        }
    }

    /// `None` if the pair is not supported.
    fn take_pair(&mut self, word: &str, holds: bool, value: &str) -> Option<()> {
        let condition = match word {
            "--comment" => {
                self.comment = value.to_owned();
                return Some(());
            }
            "--nfacct-name" | "--name" | "--mask" | "--mode" | "--reject-with" | "--packet" => return Some(()),
            "-j" | "-g" => return self.take_target(word, value),
            "--to-destination" => {
                self.action = Action::End(Verdict::Translate(value.parse().ok()?));
                return Some(());
            }
            "--to-ports" => {
                self.action = Action::End(Verdict::Redirect(value.parse().ok()?));
                return Some(());
            }
            "--set-xmark" => {
                let (value, mask) = masked(value)?;
                self.action = Action::Mark { value, mask };
                return Some(());
            }
            "--seconds" => {
                let seconds = value.parse().ok()?;
                let remembered = self.conditions.iter_mut().rev().find_map(|(_, condition)| match condition {
                    Condition::Remembered(known) => Some(known),
                    _ => None,
                });
                *remembered? = seconds;
                return Some(());
            }
            "-s" => Condition::Source(range(value)?),
            "-d" => Condition::Destination(range(value)?),
            "-p" => Condition::Protocol(value.parse().ok()),
            "--dport" => Condition::Port(value.parse().ok()?),
            "--src-type" if value == "LOCAL" => Condition::SourceIsLocal,
            "--dst-type" if value == "LOCAL" => Condition::DestinationIsLocal,
            "--mark" => masked(value).map(|(value, mask)| Condition::Mark { value, mask })?,
            "--ctstate" => Condition::New(value.split(',').any(|state| state == "NEW")),
            "-i" => Condition::Interface(value.to_owned()),
            "--probability" => Condition::Random(value.parse().ok()?),
            "--every" => Condition::Random(1.0 / value.parse::<u32>().ok().filter(|count| *count > 0).map(f64::from)?),
            _ => return None,
        };
        self.note(holds, &condition);
        self.conditions.push((holds, condition));
        Some(())
    }

    fn note(&mut self, holds: bool, condition: &Condition) {
        match condition {
            Condition::Destination(range) if holds && range.prefix_len() == range.max_prefix_len() => {
                self.matching.destination = Some(range.addr());
            }
            Condition::Protocol(protocol) if holds => self.matching.protocol = *protocol,
            Condition::Port(port) if holds => self.matching.port = Some(*port),
            _ => {}
        }
    }

    fn take_target(&mut self, word: &str, target: &str) -> Option<()> {
        self.action = match target {
            "ACCEPT" => Action::End(Verdict::Continue),
            "DROP" => Action::End(Verdict::Drop),
            "REJECT" => Action::End(Verdict::Reject),
            "MASQUERADE" => Action::End(Verdict::Masquerade),
            "RETURN" => Action::Return,
            // Their options follow.
            "DNAT" | "MARK" | "REDIRECT" => Action::None,
            chain if word == "-g" => Action::Goto(chain.to_owned()),
            chain if chain.starts_with("KUBE-") => Action::Jump(chain.to_owned()),
            _ => return None,
        };
        Some(())
    }

    /// The part of the branch that matches, and the rest.
    pub(crate) fn split(&self, mut branch: Branch, site: &Site<'_>, sets: &Sets) -> (Option<Branch>, Option<Branch>) {
        let mut likelihood = 1.0;
        for (holds, condition) in &self.conditions {
            match condition {
                Condition::Random(share) => likelihood *= share,
                Condition::Remembered(seconds) => {
                    branch.affinity = Some(*seconds);
                    return (None, Some(branch));
                }
                other if other.is_met(&branch, site, sets) != *holds => return (None, Some(branch)),
                _ => {}
            }
        }
        if likelihood >= 1.0 {
            return (Some(branch), None);
        }
        let matched = Branch { share: branch.share * likelihood, ..branch.clone() };
        let unmatched = Branch { share: branch.share * (1.0 - likelihood), ..branch };
        (Some(matched), Some(unmatched))
    }
}

impl Condition {
    fn is_met(&self, branch: &Branch, site: &Site<'_>, sets: &Sets) -> bool {
        let packet = &branch.packet;
        match self {
            Self::Source(range) => range.contains(&packet.source),
            Self::Destination(range) => range.contains(&packet.destination),
            Self::Protocol(protocol) => *protocol == Some(packet.protocol),
            Self::Port(port) => *port == packet.port,
            Self::SourceIsLocal => site.owns(packet.source),
            Self::DestinationIsLocal => site.owns(packet.destination),
            Self::Mark { value, mask } => branch.mark & mask == *value,
            Self::New(is_new) => *is_new,
            Self::InSet { set, parts } => sets.hold(set, parts, packet),
            Self::Interface(name) => is_interface(packet.interface.as_deref(), name),
            Self::Random(_) | Self::Remembered(_) => false,
        }
    }
}

/// A plus at the end matches any suffix.
fn is_interface(interface: Option<&str>, pattern: &str) -> bool {
    interface.is_some_and(|interface| match pattern.strip_suffix('+') {
        Some(prefix) => interface.starts_with(prefix),
        None => interface == pattern,
    })
}

fn range(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

fn masked(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| u32::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    match text.split_once('/') {
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
        None => Some((number(text)?, u32::MAX)),
    }
}
