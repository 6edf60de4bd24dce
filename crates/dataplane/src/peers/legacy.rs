//! kube-proxy's chains in the old kind of iptables, which only its own programs can read and write.

use std::collections::BTreeSet;
use std::io;
use std::process::Output;

use portolan_model::Family;

use super::chains::{Removal, Rule, TABLES, Table};
use super::{Doing, Trouble};
use crate::tables::save::{SavedTable, parse_save};
use crate::tables::{LOCK_SECONDS, output_of};

/// Whether the kernel has any table of the old kind in this network namespace. A read makes none.
pub(super) fn is_in_use(family: Family) -> Result<bool, Trouble> {
    let path = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    match std::fs::read_to_string(path) {
        Ok(names) => Ok(TABLES.iter().any(|table| names.lines().any(|name| name == *table))),
        // The kernel has no such tables.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Trouble::new(format!("reading {path}"), error)),
    }
}

pub(super) fn tables(family: Family) -> Result<Vec<Table<String>>, Trouble> {
    if !is_in_use(family)? {
        return Ok(Vec::new());
    }
    let saved = parse_save(&run(family, "save", &[], "")?);
    let tables = saved.into_iter().filter(|table| TABLES.contains(&table.name.as_str())).map(table);
    Ok(tables.filter(Table::has_chains).collect())
}

fn table(saved: SavedTable) -> Table<String> {
    let rules = saved.rules.into_iter().map(|rule| Rule {
        target: rule.target().map(str::to_owned),
        chain: rule.chain,
        id: rule.text,
    });
    Table { rules: rules.collect(), name: saved.name, chains: saved.chains, spared: BTreeSet::new() }
}

/// Each table is replaced in one step by the kernel.
pub(super) fn remove_chains(family: Family, removals: &[Removal<String>]) -> Result<(), Trouble> {
    let script: String = removals.iter().map(script).collect();
    run(family, "restore", &["--noflush", "-w", LOCK_SECONDS], &script).map(drop)
}

/// Naming a chain empties it. All are emptied before the first is deleted, because they refer to each other.
fn script(removal: &Removal<String>) -> String {
    let flush = removal.chains.iter().map(|chain| format!(":{chain} - [0:0]\n"));
    let jumps = removal.jumps.iter().map(|(chain, rule)| format!("-D {chain} {rule}\n"));
    let delete = removal.chains.iter().map(|chain| format!("-X {chain}\n"));
    let lines: String = flush.chain(jumps).chain(delete).collect();
    format!("*{}\n{lines}COMMIT\n", removal.table)
}

/// Runs `iptables-legacy-save` and the like, without a shell.
fn run(family: Family, what: &str, flags: &[&str], input: &str) -> Doing<String> {
    let base = if family == Family::V4 { "iptables" } else { "ip6tables" };
    let program = format!("{base}-legacy-{what}");
    let output = match output_of(&program, flags, input) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => unnamed(base, what, flags, input),
        output => output,
    };
    let output = output.map_err(|error| Trouble::new(format!("running {program}"), error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Trouble::new(format!("running {program}"), format!("{}: {said}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where there is only `iptables-save`, it may be of the old kind and have no other name.
fn unnamed(base: &str, what: &str, flags: &[&str], input: &str) -> io::Result<Output> {
    let program = format!("{base}-{what}");
    let missing = || {
        let advice =
            format!("there is no {base}-legacy-{what} here; install the package iptables to remove such rules");
        io::Error::new(io::ErrorKind::NotFound, advice)
    };
    let version = output_of(&program, &["--version"], "").map_err(|_| missing())?;
    if String::from_utf8_lossy(&version.stdout).contains("nf_tables") {
        return Err(missing());
    }
    output_of(&program, flags, input)
}
