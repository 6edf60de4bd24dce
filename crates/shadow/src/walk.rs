//! A packet's way past the kernel's hooks, with every random branch followed.

use std::net::SocketAddr;

use portolan_model::{Family, Protocol};
use portolan_plan::{FrontendAddress, NodePlan, Packet};

use crate::behaviour::{Behaviour, Choice, End};

/// Where rules are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Filters that come before translation.
    Early(Entry),
    Translate(Entry),
    Input,
    Forward,
    Output,
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// It arrives on an interface.
    Prerouting,
    /// The node itself sends it.
    Output,
}

/// One branch of what may happen.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) packet: Packet,
    pub(crate) translated: bool,
    pub(crate) mark: u32,
    pub(crate) share: f64,
    pub(crate) affinity: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing stops it.
    Continue,
    Translate(SocketAddr),
    Masquerade,
    Drop,
    Reject,
}

/// An address that kube-proxy's rules have something to say about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerFrontend {
    pub(crate) family: Family,
    pub(crate) address: FrontendAddress,
    pub(crate) protocol: Protocol,
    /// The Service, as far as the rules tell.
    pub(crate) service: String,
}

/// Rules of one kind that can be run on a packet.
pub(crate) trait Rules {
    fn run(&self, hook: Hook, node: &NodePlan, branch: Branch) -> Vec<(Branch, Verdict)>;
    fn frontends(&self) -> Vec<PeerFrontend>;
}

pub(crate) fn walk(rules: &dyn Rules, node: &NodePlan, packet: &Packet) -> Behaviour {
    let mut walk = Walk { rules, node, endings: Vec::new(), affinity: None };
    let start = Branch { packet: packet.clone(), translated: false, mark: 0, share: 1.0, affinity: None };
    let is_own = packet.interface.is_none() && node.owns(packet.source);
    walk.enter(start, if is_own { Entry::Output } else { Entry::Prerouting });
    Behaviour::new(walk.endings, walk.affinity)
}

struct Walk<'a> {
    rules: &'a dyn Rules,
    node: &'a NodePlan,
    endings: Vec<Choice>,
    affinity: Option<u32>,
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
        for (mut branch, verdict) in self.rules.run(hook, self.node, branch) {
            match verdict {
                Verdict::Drop => self.end(&branch, End::Drop, false),
                Verdict::Reject => self.end(&branch, End::Reject, false),
                Verdict::Continue | Verdict::Masquerade => passed.push(branch),
                Verdict::Translate(endpoint) => {
                    (branch.packet.destination, branch.packet.port) = (endpoint.ip(), endpoint.port());
                    branch.translated = true;
                    passed.push(branch);
                }
            }
        }
        passed
    }

    fn end(&mut self, branch: &Branch, end: End, masquerade: bool) {
        self.affinity = self.affinity.or(branch.affinity);
        self.endings.push(Choice { end, masquerade, share: branch.share });
    }
}
