//! Chains in the tables of legacy iptables, which only the legacy programs can read and write.

use std::collections::BTreeSet;
use std::io;
use std::process::Output;

use portolan_model::Family;

use super::chains::{Removal, Rule, TABLES, Table};
use crate::place::{Outcome, RemovalError};
use crate::tables::save::{SavedTable, parse_save};
use crate::tables::{LOCK_SECONDS, output_of};

/// Whether the kernel has any legacy table in this network namespace. Reading the list creates none.
pub(super) fn is_in_use(family: Family) -> Result<bool, RemovalError> {
    let path = match family {
        Family::V4 => "/proc/thread-self/net/ip_tables_names",
        Family::V6 => "/proc/thread-self/net/ip6_tables_names",
    };
    match std::fs::read_to_string(path) {
        Ok(names) => Ok(TABLES.iter().any(|table| names.lines().any(|name| name == *table))),
        // The kernel has no such tables.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(RemovalError::new(format!("reading {path}"), error)),
    }
}

pub(super) fn tables(family: Family) -> Result<Vec<Table<String>>, RemovalError> {
    if !is_in_use(family)? {
        return Ok(Vec::new());
    }
    let saved = parse_save(&run(family, "save", &[], "")?);
    let tables = saved.into_iter().filter(|table| TABLES.contains(&table.name.as_str())).map(table);
    Ok(tables.filter(Table::has_chains).collect())
}

fn table(saved: SavedTable) -> Table<String> {
    let rules = saved.rules.into_iter().map(|rule| Rule { target: rule.target(), chain: rule.chain, id: rule.text });
    Table { rules: rules.collect(), name: saved.name, chains: saved.chains, spared: BTreeSet::new() }
}

/// The kernel replaces each table in one step.
pub(super) fn remove_chains(family: Family, removals: &[Removal<String>]) -> Result<(), RemovalError> {
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
fn run(family: Family, what: &str, flags: &[&str], input: &str) -> Outcome<String> {
    let base = if family == Family::V4 { "iptables" } else { "ip6tables" };
    let program = format!("{base}-legacy-{what}");
    let output = match output_of(&program, flags, input) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => unnamed(base, what, flags, input),
        output => output,
    };
    let output = output.map_err(|error| {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        let failure = RemovalError::new(format!("running {program}"), error);
        if is_missing { failure.lasting() } else { failure }
    })?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(RemovalError::new(format!("running {program}"), format!("{}: {message}", output.status)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where only `iptables-save` is installed, it may be the legacy variant under its plain name.
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
