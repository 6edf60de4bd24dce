//! The packets that each rule of the nat table has seen.

use portolan_model::Family;

use super::programs::{Variant, program, run};
use crate::Error;

/// Passes the chain, the packets and the text of each rule to `each`.
pub(crate) fn counted_rules(
    variant: Variant,
    family: Family,
    mut each: impl FnMut(&str, u64, &str),
) -> Result<(), Error> {
    let text = run(&program(family, variant, "save"), &["-c", "-t", "nat"], "")?;
    for (chain, packets, rule) in text.lines().filter_map(counted) {
        each(chain, packets, rule);
    }
    Ok(())
}

/// `[packets:bytes] -A CHAIN RULE`.
fn counted(line: &str) -> Option<(&str, u64, &str)> {
    let (counters, rule) = line.strip_prefix('[')?.split_once("] -A ")?;
    let (chain, rule) = rule.split_once(' ')?;
    Some((chain, counters.split_once(':')?.0.parse().ok()?, rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packets_of_a_rule_are_read() {
        let line =
            "[12:720] -A KUBE-SEP-ABC -p tcp -m comment --comment \"[9:9] -A X\" -j DNAT --to-destination 10.0.0.1:80";
        assert_eq!(counted(line).map(|(chain, packets, _)| (chain, packets)), Some(("KUBE-SEP-ABC", 12)));
        assert_eq!(counted(":KUBE-SEP-ABC - [0:0]"), None);
        assert_eq!(counted("-A KUBE-SEP-ABC -j DNAT"), None);
    }
}
