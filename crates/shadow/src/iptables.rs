//! kube-proxy's iptables mode: what `iptables-save` prints, run on a packet.

use portolan_dataplane::tables::save::{SavedTable, parse_save};
use portolan_dataplane::tables::{Matching, RuleBook};
use portolan_dataplane::walk::{BaseChain, Branch, Hook, Rules, Site, Verdict};
use portolan_model::Family;
use portolan_plan::FrontendAddress;

use crate::frontends::{Frontends, PeerFrontend};

#[derive(Default)]
pub(crate) struct Iptables(pub(crate) RuleBook);

/// The chains with one rule per frontend.
const LISTED: [(&str, &str); 4] = [
    ("nat", "KUBE-SERVICES"),
    ("nat", "KUBE-NODEPORTS"),
    ("filter", "KUBE-SERVICES"),
    ("filter", "KUBE-EXTERNAL-SERVICES"),
];

/// Rules of other programs in the built-in chains are not run: they are the same under any proxy.
fn is_relevant(chain: &str, target: Option<&str>) -> bool {
    chain.starts_with("KUBE-") || target.is_some_and(|target| target.starts_with("KUBE-") && target != "KUBE-FIREWALL")
}

impl Iptables {
    pub(crate) fn add(&mut self, family: Family, text: &str) {
        for SavedTable { name, rules, .. } in parse_save(text) {
            for saved in rules.iter().filter(|rule| is_relevant(&rule.chain, rule.target().as_deref())) {
                self.0.add(family, &name, &saved.chain, &saved.text);
            }
        }
    }
}

impl Rules for Iptables {
    fn base_chains(&self, hook: Hook, family: Family) -> Vec<BaseChain> {
        self.0.base_chains(hook, family)
    }

    fn run(&self, chain: &BaseChain, site: &Site<'_>, branch: Branch) -> Vec<(Branch, Verdict)> {
        self.0.run(chain, site, branch)
    }
}

impl Frontends for Iptables {
    fn frontends(&self) -> Vec<PeerFrontend> {
        let of_chain = |family, (table, chain)| {
            let matchings = self.0.matchings(family, table, chain).into_iter();
            matchings.filter_map(move |(matching, comment)| frontend(family, matching, comment)).collect::<Vec<_>>()
        };
        let places = Family::BOTH.into_iter().flat_map(|family| LISTED.map(|place| (family, place)));
        places.flat_map(|(family, place)| of_chain(family, place)).collect()
    }
}

/// Rules of node ports name no address, or all of loopback.
fn frontend(family: Family, matching: Matching, comment: &str) -> Option<PeerFrontend> {
    let Matching { destination, protocol, port } = matching;
    let port = port?;
    let address = destination.map_or(FrontendAddress::NodePort(port), |address| FrontendAddress::Vip(address, port));
    let service = comment.split_whitespace().next().unwrap_or_default().to_owned();
    Some(PeerFrontend { family, address, protocol: protocol?, service })
}
