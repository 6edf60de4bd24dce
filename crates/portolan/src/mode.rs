//! Which mode runs when which is asked for.

use portolan_config::{AskedMode, Notice};
use portolan_dataplane::tables;
use portolan_kernel::ipvs::Ipvs;

use crate::flags::Mode;

/// Modes that are built run as asked; until the others are built, nftables does their work.
const RUNS_AS: [(AskedMode, Mode); 7] = [
    (AskedMode::Unset, Mode::Nftables),
    (AskedMode::Nftables, Mode::Nftables),
    (AskedMode::Iptables, Mode::Iptables),
    (AskedMode::Ipvs, Mode::Ipvs),
    (AskedMode::Userspace, Mode::Userspace),
    (AskedMode::Kernelspace, Mode::Nftables),
    (AskedMode::Ebpf, Mode::Nftables),
];

/// The mode that runs, and what the operator should know about that.
pub(crate) fn chosen(asked: AskedMode) -> (Mode, Option<Notice>) {
    let has_ipvs = asked == AskedMode::Ipvs && Ipvs::open().is_ok_and(|ipvs| ipvs.is_some());
    decide(asked, Offers { iptables: tables::is_installed(), ipvs: has_ipvs })
}

/// What this machine has.
#[derive(Clone, Copy)]
struct Offers {
    iptables: bool,
    ipvs: bool,
}

/// An image without programs still serves a cluster whose configuration asks for iptables, and so does a kernel without
/// IPVS one whose configuration asks for that.
fn decide(asked: AskedMode, offers: Offers) -> (Mode, Option<Notice>) {
    let runs = RUNS_AS.iter().find(|(mode, _)| *mode == asked).map_or(Mode::Nftables, |(_, runs)| *runs);
    let lacks = match runs {
        Mode::Ipvs if !offers.ipvs => Some("this kernel has no IPVS (module ip_vs)"),
        Mode::Iptables | Mode::Userspace | Mode::Ipvs if !offers.iptables => {
            Some("the programs of iptables are not installed here")
        }
        _ => None,
    };
    if let Some(because) = lacks {
        return (Mode::Nftables, Some(substitute(asked, Mode::Nftables, because)));
    }
    let notice = match asked {
        _ if asked.name() == runs.name() => None,
        AskedMode::Unset => Some(Notice::info(format!("no mode was asked for: running in mode {}", runs.name()))),
        _ => Some(substitute(asked, runs, "is not built yet")),
    };
    (runs, notice)
}

fn substitute(asked: AskedMode, runs: Mode, because: &str) -> Notice {
    let (asked, runs) = (asked.name(), runs.name());
    Notice::warning(format!(
        "mode {asked} was asked for and {because}: running in mode {runs}, which serves the same Services; write mode: \
         {runs} to say so yourself"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERYTHING: Offers = Offers { iptables: true, ipvs: true };
    const NOTHING: Offers = Offers { iptables: false, ipvs: false };

    #[test]
    fn every_mode_runs_as_something_and_a_substitute_is_told() {
        for asked in AskedMode::ALL {
            assert!(RUNS_AS.iter().any(|(mode, _)| *mode == asked), "{asked:?}");
            for (iptables, ipvs) in [(true, true), (true, false), (false, true), (false, false)] {
                let (runs, notice) = decide(asked, Offers { iptables, ipvs });
                assert_eq!(notice.is_some(), runs.name() != asked.name(), "{asked:?}");
            }
        }
        assert_eq!(decide(AskedMode::Iptables, EVERYTHING).0, Mode::Iptables);
        assert_eq!(decide(AskedMode::Iptables, NOTHING).0, Mode::Nftables);
        assert_eq!(decide(AskedMode::Userspace, EVERYTHING).0, Mode::Userspace);
    }
}
