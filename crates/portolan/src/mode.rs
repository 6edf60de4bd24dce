//! Which mode runs when which is asked for.

use portolan_config::{AskedMode, Notice};

use crate::flags::Mode;

/// Modes that are built run as asked; until the others are built, nftables does their work.
const RUNS_AS: [(AskedMode, Mode); 7] = [
    (AskedMode::Unset, Mode::Nftables),
    (AskedMode::Nftables, Mode::Nftables),
    (AskedMode::Iptables, Mode::Iptables),
    (AskedMode::Ipvs, Mode::Nftables),
    (AskedMode::Userspace, Mode::Nftables),
    (AskedMode::Kernelspace, Mode::Nftables),
    (AskedMode::Ebpf, Mode::Nftables),
];

/// The mode that runs, and what the operator should know about that.
pub(crate) fn chosen(asked: AskedMode) -> (Mode, Option<Notice>) {
    let runs = RUNS_AS.iter().find(|(mode, _)| *mode == asked).map_or(Mode::Nftables, |(_, runs)| *runs);
    let notice = match asked {
        _ if asked.name() == runs.name() => None,
        AskedMode::Unset => Some(Notice::info(format!("no mode was asked for: running in mode {}", runs.name()))),
        _ => Some(Notice::warning(format!(
            "mode {} was asked for and is not built yet: running in mode {}, which serves the same Services; write mode: \
             {} to say so yourself",
            asked.name(),
            runs.name(),
            runs.name(),
        ))),
    };
    (runs, notice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_runs_as_something_and_a_substitute_is_told() {
        for asked in AskedMode::ALL {
            assert!(RUNS_AS.iter().any(|(mode, _)| *mode == asked), "{asked:?}");
            let (runs, notice) = chosen(asked);
            assert_eq!(notice.is_some(), runs.name() != asked.name(), "{asked:?}");
        }
    }
}
