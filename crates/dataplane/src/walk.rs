//! A packet's way past the kernel's hooks, with every random branch followed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use portolan_model::Family;
use portolan_plan::{NodePlan, Packet};

/// Where rules are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Filters that come before translation.
    Early(Entry),
    Translate(Entry),
    Input,
    Forward,
    Output,
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It arrives on an interface.
    Prerouting,
    /// The node itself sends it.
    Output,
}

/// One branch of what may happen.
#[derive(Clone, Debug)]
pub struct Branch {
    pub packet: Packet,
    pub translated: bool,
    pub mark: u32,
    pub share: f64,
    pub affinity: Option<u32>,
    /// The rules that it has met.
    pub path: Vec<Met>,
}

/// A rule that matched, in its chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    pub chain: Arc<str>,
    pub rule: Arc<str>,
}

/// All that may happen.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub endings: Vec<Ending>,
    /// How long a client is remembered, in seconds.
    pub affinity: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Ending {
    pub end: End,
    /// Whether the endpoint sees an address of the node as the source.
    pub masquerade: bool,
    /// How likely it is, from 0 to 1.
    pub share: f64,
    pub path: Vec<Met>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Forward(SocketAddr),
    Reject,
    Drop,
    /// It goes on as it came.
    Pass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing stops it.
    Continue,
    Translate(SocketAddr),
    /// To a port of the node itself.
    Redirect(u16),
    Masquerade,
    Drop,
    Reject,
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(endpoint) => write!(formatter, "to {endpoint}"),
            Self::Reject => formatter.write_str("reject"),
            Self::Drop => formatter.write_str("drop"),
            Self::Pass => formatter.write_str("not handled"),
        }
    }
}

/// Rules of one kind that can be run on a packet.
pub trait Rules {
    fn run(&self, hook: Hook, node: &NodePlan, branch: Branch) -> Vec<(Branch, Verdict)>;
}

pub fn walk(rules: &dyn Rules, node: &NodePlan, packet: &Packet) -> Outcome {
    let mut walk = Walk { rules, node, outcome: Outcome::default() };
    let start =
        Branch { packet: packet.clone(), translated: false, mark: 0, share: 1.0, affinity: None, path: Vec::new() };
    let is_own = packet.interface.is_none() && node.owns(packet.source);
    walk.enter(start, if is_own { Entry::Output } else { Entry::Prerouting });
    walk.outcome
}

struct Walk<'a> {
    rules: &'a dyn Rules,
    node: &'a NodePlan,
    outcome: Outcome,
}

impl Walk<'_> {
    fn enter(&mut self, branch: Branch, entry: Entry) {
        for branch in self.pass(Hook::Early(entry), branch) {
            for branch in self.pass(Hook::Translate(entry), branch) {
                self.filter(branch, entry);
            }
        }
    }

    /// A packet of the node to itself leaves and comes in again.
    fn filter(&mut self, branch: Branch, entry: Entry) {
        let stays = self.node.owns(branch.packet.destination);
        let hooks: &[Hook] = match (entry, stays) {
            (Entry::Prerouting, true) => &[Hook::Input],
            (Entry::Prerouting, false) => &[Hook::Forward],
            (Entry::Output, false) => &[Hook::Output],
            (Entry::Output, true) => &[Hook::Output, Hook::Input],
        };
        let mut branches = vec![branch];
        for hook in hooks {
            branches = branches.into_iter().flat_map(|branch| self.pass(*hook, branch)).collect();
        }
        for branch in branches {
            self.leave(branch, entry == Entry::Output || !stays);
        }
    }

    fn leave(&mut self, branch: Branch, leaves: bool) {
        let outcomes =
            if leaves { self.rules.run(Hook::Leave, self.node, branch) } else { vec![(branch, Verdict::Continue)] };
        for (branch, verdict) in outcomes {
            let destination = SocketAddr::new(branch.packet.destination, branch.packet.port);
            let end = if branch.translated { End::Forward(destination) } else { End::Pass };
            let masquerade = verdict == Verdict::Masquerade && branch.translated;
            self.end(&branch, end, masquerade);
        }
    }

    /// The branches that go on behind a hook.
    fn pass(&mut self, hook: Hook, branch: Branch) -> Vec<Branch> {
        let mut passed = Vec::new();
        for (branch, verdict) in self.rules.run(hook, self.node, branch) {
            match verdict {
                Verdict::Drop => self.end(&branch, End::Drop, false),
                Verdict::Reject => self.end(&branch, End::Reject, false),
                Verdict::Continue | Verdict::Masquerade => passed.push(branch),
                Verdict::Translate(endpoint) => passed.push(translated(branch, endpoint)),
                Verdict::Redirect(port) => {
                    let own = self.own_address(branch.packet.destination);
                    passed.push(translated(branch, SocketAddr::new(own, port)));
                }
            }
        }
        passed
    }

    /// Which of the node's addresses it is depends on the interface; no rule of ours does.
    fn own_address(&self, destination: IpAddr) -> IpAddr {
        let family = Family::of(destination);
        self.node.primary_address(family).unwrap_or(match family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        })
    }

    fn end(&mut self, branch: &Branch, end: End, masquerade: bool) {
        self.outcome.affinity = self.outcome.affinity.or(branch.affinity);
        let (share, path) = (branch.share, branch.path.clone());
        self.outcome.endings.push(Ending { end, masquerade, share, path });
    }
}

fn translated(mut branch: Branch, endpoint: SocketAddr) -> Branch {
    (branch.packet.destination, branch.packet.port) = (endpoint.ip(), endpoint.port());
    branch.translated = true;
    branch
}
