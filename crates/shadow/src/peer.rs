//! kube-proxy's rules on this node, whatever its mode.

use std::io;
use std::process::Command;

use portolan_dataplane::peers::{self, Peer, Variant};
use portolan_dataplane::walk::{End, NoRules, walk};
use portolan_model::Family;
use portolan_plan::{NodePlan, Packet};

use crate::behaviour::{Behaviour, Choice};
use crate::frontends::{Frontends, PeerFrontend};
use crate::iptables::Iptables;
use crate::nftables;

/// Everything that kube-proxy has programmed, ready to be run.
pub struct PeerRules {
    rules: Box<dyn Frontends + Send>,
    pub mode: &'static str,
    /// Parts of rules that are not understood. What becomes of a packet that meets such a rule is unknown.
    pub unknown: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("kube-proxy has programmed no Services here, in nftables or iptables mode: is it running on this node?")]
    Nothing,
    #[error("kube-proxy is in ipvs mode here, whose virtual servers cannot be compared")]
    Ipvs,
    #[error("reading kube-proxy's tables: {0}")]
    Kernel(#[from] portolan_kernel::Error),
    #[error("{0}")]
    Unreadable(#[from] peers::RemovalError),
    #[error("running {program}, which is needed to read kube-proxy's iptables rules: {source}")]
    Program { program: String, source: io::Error },
}

/// Reads kube-proxy's rules from the kernel; iptables rules by the program `iptables-save` of the variant in use.
pub fn read_peer() -> Result<PeerRules, ReadError> {
    let detection = peers::detect();
    let serving: Vec<&Peer> = detection.peers.iter().filter(|peer| peer.found.has_services).collect();
    let is_in = |mode: &str| serving.iter().any(|peer| peer.place.mode() == mode);
    if is_in("ipvs") {
        return Err(ReadError::Ipvs);
    }
    if is_in("nftables") {
        let rules = nftables::read()?.ok_or(ReadError::Nothing)?;
        let unknown = rules.unknown.clone();
        return Ok(PeerRules { rules: Box::new(rules), mode: "nftables", unknown });
    }
    let variant = serving.iter().find_map(|peer| peer.place.variant());
    match variant {
        Some(variant) => Ok(PeerRules::from_iptables(&save(variant, Family::V4)?, &save(variant, Family::V6)?)),
        None => Err(detection.errors.into_iter().next().map_or(ReadError::Nothing, ReadError::Unreadable)),
    }
}

fn save(variant: Variant, family: Family) -> Result<String, ReadError> {
    let base = if family == Family::V4 { "iptables" } else { "ip6tables" };
    let kind = if variant == Variant::Legacy { "legacy" } else { "nft" };
    let program = format!("{base}-{kind}-save");
    let output = Command::new(&program).output().and_then(|output| match output.status.success() {
        true => Ok(output),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    });
    let output = output.map_err(|source| ReadError::Program { program, source })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl PeerRules {
    /// From what `iptables-save` and `ip6tables-save` print.
    pub fn from_iptables(ipv4: &str, ipv6: &str) -> Self {
        let mut rules = Iptables::default();
        rules.add(Family::V4, ipv4);
        rules.add(Family::V6, ipv6);
        let unknown = rules.0.unknown.clone();
        Self { rules: Box::new(rules), mode: "iptables", unknown }
    }

    /// What kube-proxy does with this packet.
    pub fn behaviour(&self, node: &NodePlan, packet: &Packet) -> Behaviour {
        let outcome = walk(&*self.rules, &NoRules, node, packet);
        let failed = outcome.endings.iter().filter(|ending| ending.end == End::Unknown);
        let not_understood = failed.filter_map(|ending| ending.stopped_by.as_ref()).map(ToString::to_string).next();
        Behaviour { not_understood, ..Behaviour::new(outcome.endings.iter().map(Choice::from), outcome.affinity) }
    }

    pub(crate) fn frontends(&self) -> Vec<PeerFrontend> {
        self.rules.frontends()
    }
}
