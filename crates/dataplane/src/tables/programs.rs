//! The iptables programs, in two variants that do not see each other's rules.

use std::fmt;
use std::io::{self, Write};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use portolan_model::Family;

use super::processes;
use crate::families::Families;
use crate::{Error, ModeSettings};

/// How long the programs wait for the xtables lock.
pub(crate) const LOCK_SECONDS: &str = "5";
/// The program without a variant in its name.
pub(crate) const PLAIN_PROGRAM: &str = "iptables";
/// Chains by which kubelet shows which variant it uses.
const HINTS: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// Rules are kept in nf_tables.
    Nft,
    /// Rules are kept in the legacy tables.
    Legacy,
}

impl Variant {
    pub const BOTH: [Self; 2] = [Self::Nft, Self::Legacy];

    pub fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::Legacy => "legacy",
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Which variant to use, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    variant: Variant,
    because: String,
    /// Both hold rules, so packets pass both.
    both_hold_rules: bool,
}

/// What is known of one variant on this machine.
#[derive(Clone, Copy, Debug, Default)]
struct Holds {
    is_installed: bool,
    has_hint: bool,
    rules: usize,
}

impl Holds {
    fn is_empty(self) -> bool {
        !self.has_hint && self.rules == 0
    }
}

/// The option that names the variant instead of detection.
pub const VARIANT_OPTION: &str = "iptables-variant";

/// The variant that the settings name, or the detected one.
pub(crate) fn variant_of(settings: &ModeSettings) -> Result<Variant, Error> {
    let named = settings.options.text(VARIANT_OPTION);
    Variant::BOTH.into_iter().find(|variant| variant.name() == named).map_or_else(chosen_variant, Ok)
}

/// The variant to use, chosen once per process: later, our own rules would affect the choice.
fn chosen_variant() -> Result<Variant, Error> {
    static CHOSEN: OnceLock<Variant> = OnceLock::new();
    if let Some(variant) = CHOSEN.get() {
        return Ok(*variant);
    }
    let choice = choose()?;
    tracing::info!("using the {} variant of iptables: {}", choice.variant, choice.because);
    if choice.both_hold_rules {
        tracing::warn!(
            "both variants of iptables hold rules, and packets pass both: move all rules to one variant (iptables-save of \
             the one, iptables-restore of the other)"
        );
    }
    Ok(*CHOSEN.get_or_init(|| choice.variant))
}

/// Looks for kubelet's hint chains, then for rules, then at the plain program `iptables`.
fn choose() -> Result<Choice, Error> {
    let (legacy, plain_is_nft) = (look(Variant::Legacy)?, plain_is_nft());
    // Rules of nf_tables could not change the choice, and those of thousands of Services take a second to list.
    if plain_is_nft && legacy.is_empty() && is_usable(Variant::Nft) {
        // Programs that do not work are an error here: the mode before stays.
        run(&program(Family::V4, Variant::Nft, "save"), flags_of_small_listing(Variant::Nft), "")?;
        return Ok(Choice {
            variant: Variant::Nft,
            because: "the program iptables is of this variant, and the legacy tables are empty".into(),
            both_hold_rules: false,
        });
    }
    let nft = look(Variant::Nft)?;
    if !nft.is_installed && !legacy.is_installed {
        return Err(Error::Program {
            attempted: "looking for iptables-nft-restore or iptables-legacy-restore".into(),
            reason: "neither is installed; install the package iptables, or use another --proxy-mode".into(),
        });
    }
    Ok(decide(nft, legacy, plain_is_nft))
}

fn decide(nft: Holds, legacy: Holds, plain_is_nft: bool) -> Choice {
    let (variant, because) = match (nft, legacy) {
        (_, Holds { is_installed: false, .. }) => (Variant::Nft, "it is the one that is installed"),
        (Holds { is_installed: false, .. }, _) => (Variant::Legacy, "it is the one that is installed"),
        (Holds { has_hint: true, .. }, _) => (Variant::Nft, "kubelet uses it"),
        (_, Holds { has_hint: true, .. }) => (Variant::Legacy, "kubelet uses it"),
        (Holds { rules: 0, .. }, Holds { rules: 1.., .. }) => (Variant::Legacy, "it is the one with rules"),
        (Holds { rules: 1.., .. }, Holds { rules: 0, .. }) => (Variant::Nft, "it is the one with rules"),
        _ if plain_is_nft => (Variant::Nft, "the program iptables is of this variant"),
        _ => (Variant::Legacy, "the program iptables is of this variant"),
    };
    Choice { variant, because: because.into(), both_hold_rules: nft.rules > 0 && legacy.rules > 0 }
}

/// What this machine lacks for a mode with rules in these tables.
pub(crate) fn missing_programs() -> Option<String> {
    (!is_installed()).then(|| "the programs of iptables are not installed (package iptables)".into())
}

/// Whether the programs of either variant are installed. Runs nothing.
fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |variant| {
        let name = program(Family::V4, variant, "restore");
        std::env::split_paths(&path).any(|folder| folder.join(&name).is_file())
    };
    Variant::BOTH.into_iter().any(has)
}

/// Whether the programs of the variant can be started.
fn is_usable(variant: Variant) -> bool {
    output_of(&program(Family::V4, variant, "restore"), &["--version"], "").is_ok()
}

/// Reading creates the legacy tables, so they are only read where the kernel has any.
fn look(variant: Variant) -> Result<Holds, Error> {
    let is_installed = is_usable(variant);
    if !is_installed || (variant == Variant::Legacy && !legacy_is_in_use()) {
        return Ok(Holds { is_installed, ..Holds::default() });
    }
    let text = run(&program(Family::V4, variant, "save"), &[], "")?;
    let has_hint = HINTS.iter().any(|hint| text.lines().any(|line| line.starts_with(&format!(":{hint} "))));
    Ok(Holds { is_installed, has_hint, rules: text.lines().filter(|line| line.starts_with("-A ")).count() })
}

fn legacy_is_in_use() -> bool {
    let names = std::fs::read_to_string("/proc/thread-self/net/ip_tables_names");
    names.is_ok_and(|names| !names.trim().is_empty())
}

fn plain_is_nft() -> bool {
    output_of(PLAIN_PROGRAM, &["--version"], "")
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("nf_tables"))
}

/// The families whose programs work. A node may lack `ip6tables`, or the kernel the tables behind it.
pub(crate) fn families(variant: Variant) -> Families {
    let mut families = Families::of_machine();
    if families.serve(Family::V6)
        && let Err(error) = run(&program(Family::V6, variant, "save"), flags_of_small_listing(variant), "")
    {
        families.leave_out(Family::V6, &error.to_string());
    }
    families
}

/// Flags of a listing that is short with any number of Services: they have few rules in the table mangle. The legacy variant would create
/// that table.
fn flags_of_small_listing(variant: Variant) -> &'static [&'static str] {
    match variant {
        Variant::Nft => &["-t", "mangle"],
        Variant::Legacy => &[],
    }
}

pub(crate) fn program(family: Family, variant: Variant, what: &str) -> String {
    format!("{}-{what}", listing_program(family, variant))
}

/// The program that lists single chains.
pub(crate) fn listing_program(family: Family, variant: Variant) -> String {
    let base = if family == Family::V4 { "iptables" } else { "ip6tables" };
    format!("{base}-{variant}")
}

/// Runs a program without a shell, and returns its output.
pub(crate) fn run(program: &str, flags: &[&str], input: &str) -> Result<String, Error> {
    let attempted = || format!("running {}", [&[program], flags].concat().join(" "));
    let output = output_of(program, flags, input).map_err(|error| Error::Program {
        attempted: attempted(),
        reason: format!("{error}; is the package iptables installed?"),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Program { attempted: attempted(), reason: explained(&message, input, output.status.code()) })
}

const LOCKED: i32 = 4;

/// The programs name only the number of the line that failed; this adds the line.
fn explained(message: &str, input: &str, status: Option<i32>) -> String {
    let number = message.split("line").nth(1).and_then(|rest| {
        rest.trim_start_matches([':', ' ']).split(|it: char| !it.is_ascii_digit()).next()?.parse::<usize>().ok()
    });
    let line = number.and_then(|number| input.lines().nth(number.checked_sub(1)?));
    let locked =
        if status == Some(LOCKED) { " (another process holds the lock of iptables, or memory is short)" } else { "" };
    match line {
        Some(line) => format!("{message}{locked}; the line is: {line}"),
        None if message.is_empty() => format!("it ended with {}{locked}", ended(status)),
        None => format!("{message}{locked}"),
    }
}

fn ended(status: Option<i32>) -> String {
    status.map_or("a signal".into(), |status| format!("status {status} and no message"))
}

pub(crate) fn output_of(program: &str, flags: &[&str], input: &str) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = processes::spawn(&mut command)?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(has_hint: bool, rules: usize) -> Holds {
        Holds { is_installed: true, has_hint, rules }
    }

    #[test]
    fn kubelets_hint_counts_most_and_rules_more_than_habit() {
        let variant = |nft, legacy, plain| decide(nft, legacy, plain).variant;
        assert_eq!(variant(holds(false, 9), holds(true, 1), true), Variant::Legacy);
        assert_eq!(variant(holds(true, 1), holds(false, 9), false), Variant::Nft);
        assert_eq!(variant(holds(false, 0), holds(false, 9), true), Variant::Legacy);
        assert_eq!(variant(holds(false, 0), holds(false, 0), true), Variant::Nft);
        assert_eq!(variant(holds(false, 0), Holds::default(), false), Variant::Nft);
        assert!(decide(holds(false, 1), holds(false, 1), true).both_hold_rules);
    }

    #[test]
    fn the_line_that_failed_is_shown() {
        let message = explained("iptables-restore: line 2 failed", "*nat\n-A X -j Y\nCOMMIT\n", Some(1));
        assert!(message.ends_with("the line is: -A X -j Y"), "{message}");
        assert_eq!(explained("", "", Some(1)), "it ended with status 1 and no message");
    }
}
