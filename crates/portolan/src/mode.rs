//! Which mode runs when which is asked for.

use portolan_config::{AskedMode, Notice};
use portolan_dataplane::tables;

use crate::flags::Mode;

/// Modes that are built run as asked; until the others are built, nftables does their work.
const RUNS_AS: [(AskedMode, Mode); 7] = [
    (AskedMode::Unset, Mode::Nftables),
    (AskedMode::Nftables, Mode::Nftables),
    (AskedMode::Iptables, Mode::Iptables),
    (AskedMode::Ipvs, Mode::Nftables),
    (AskedMode::Userspace, Mode::Userspace),
    (AskedMode::Kernelspace, Mode::Nftables),
    (AskedMode::Ebpf, Mode::Nftables),
];

/// The mode that runs, and what the operator should know about that.
pub(crate) fn chosen(asked: AskedMode) -> (Mode, Option<Notice>) {
    decide(asked, tables::is_installed())
}

/// An image without programs still serves a cluster whose configuration asks for iptables.
fn decide(asked: AskedMode, has_iptables: bool) -> (Mode, Option<Notice>) {
    let runs = RUNS_AS.iter().find(|(mode, _)| *mode == asked).map_or(Mode::Nftables, |(_, runs)| *runs);
    if matches!(runs, Mode::Iptables | Mode::Userspace) && !has_iptables {
        return (
            Mode::Nftables,
            Some(substitute(asked, Mode::Nftables, "the programs of iptables are not installed here")),
        );
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

    #[test]
    fn every_mode_runs_as_something_and_a_substitute_is_told() {
        for asked in AskedMode::ALL {
            assert!(RUNS_AS.iter().any(|(mode, _)| *mode == asked), "{asked:?}");
            for has_iptables in [true, false] {
                let (runs, notice) = decide(asked, has_iptables);
                assert_eq!(notice.is_some(), runs.name() != asked.name(), "{asked:?}");
            }
        }
        assert_eq!(decide(AskedMode::Iptables, true).0, Mode::Iptables);
        assert_eq!(decide(AskedMode::Iptables, false).0, Mode::Nftables);
        assert_eq!(decide(AskedMode::Userspace, true).0, Mode::Userspace);
    }
}
