//! The kernel's iptables tables, through the iptables programs.

use std::collections::{BTreeMap, BTreeSet};

use portolan_kernel::nftables::Nftables as Handle;
use portolan_model::Family;

use super::noted::NotedChains;
use super::objects::{Key, Place, Table};
use super::programs::{LOCK_SECONDS, Variant, families, listing_program, program, run};
use super::read::Reader;
use super::script::scripts;
use super::watch::{LegacyWatch, NftWatch, legacy_counts, size_changes};
use super::{Contents, Layout};
use crate::Error;
use crate::drift::{ComparedState, Ledger, WatchForeignChanges};
use crate::families::Families;

/// The nf_tables variant takes time that grows with the square of the lines of one call. The legacy variant replaces
/// whole tables, so the cost of every call grows with the size of the table.
const LONGEST_NFT_PART: usize = 4_000;

pub(crate) struct TablesKernel {
    layout: Layout,
    variant: Variant,
    handle: Handle,
    /// The nf_tables generation, if all commits since our last read were ours. `None` if a foreign commit was among
    /// them, or without a generation counter.
    generation: Option<u32>,
    tally: RuleTally,
    /// These families were read since they were written.
    read: BTreeSet<Family>,
    families: Families,
    /// The generation that was read, or that our own commits led to.
    compared: ComparedState,
    /// What the watch has noted since everything was read.
    noted: NotedChains,
    /// The sizes of the legacy tables.
    ledger: Ledger,
}

/// Numbers of written rules, by family and table.
#[derive(Clone, Debug, Default)]
pub struct RuleTally {
    /// Current number of our rules.
    pub rules: BTreeMap<(Family, Table), usize>,
    /// Rules that the last change wrote.
    pub written: BTreeMap<(Family, Table), usize>,
    /// Failed writes: full and partial.
    pub failures: BTreeMap<Family, u64>,
    pub partial_failures: BTreeMap<Family, u64>,
}

fn rules_of(contents: &Contents) -> BTreeMap<(Family, Table), usize> {
    let mut counts = BTreeMap::new();
    for (key, value) in contents {
        let single = usize::from(matches!(key, Key::Rule(..) | Key::Jump(..)));
        *counts.entry((key.place().family, key.place().table)).or_default() += single + value.as_rules().len();
    }
    counts
}

impl RuleTally {
    fn note_read(&mut self, contents: &Contents) {
        self.rules = rules_of(contents);
    }

    /// These rules are in the place of those, by our own write or that of another process.
    fn replace(&mut self, removed: &Contents, added: &Contents) {
        for (place, count) in rules_of(added) {
            *self.rules.entry(place).or_default() += count;
        }
        for (place, count) in rules_of(removed) {
            let rules = self.rules.entry(place).or_default();
            *rules = rules.saturating_sub(count);
        }
    }

    fn note_written(&mut self, removed: &Contents, added: &Contents) {
        let families: BTreeSet<Family> = removed.keys().chain(added.keys()).map(|key| key.place().family).collect();
        self.written.retain(|(family, _), _| !families.contains(family));
        self.written.extend(rules_of(added));
        self.replace(removed, added);
    }

    fn note_failure(&mut self, family: Family, is_whole: bool) {
        let failures = if is_whole { &mut self.failures } else { &mut self.partial_failures };
        *failures.entry(family).or_default() += 1;
    }
}

impl TablesKernel {
    /// For the network namespace of the calling thread.
    pub(crate) fn open(variant: Variant, layout: Layout) -> Result<Self, Error> {
        Ok(Self {
            layout,
            variant,
            handle: Handle::open()?,
            generation: None,
            tally: RuleTally::default(),
            read: BTreeSet::new(),
            families: families(variant),
            compared: ComparedState::default(),
            noted: NotedChains::default(),
            ledger: Ledger::default(),
        })
    }

    pub(crate) fn variant(&self) -> Variant {
        self.variant
    }

    pub(crate) fn tally(&self) -> &RuleTally {
        &self.tally
    }

    /// Notices changes of our rules by other processes.
    pub(crate) fn watch(&self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        Ok(match self.variant {
            Variant::Nft => Box::new(NftWatch::open(self.layout.clone(), self.compared.clone(), self.noted.clone())?),
            Variant::Legacy => Box::new(LegacyWatch::new(self.ledger.clone())),
        })
    }

    fn current_generation(&mut self) -> Result<Option<u32>, Error> {
        match self.variant {
            Variant::Nft => Ok(Some(self.handle.generation()?)),
            Variant::Legacy => Ok(None),
        }
    }

    fn read_family(&mut self, family: Family, contents: &mut Contents) -> Result<(), Error> {
        let program = program(family, self.variant, "save");
        // One run for all tables: starting a program costs more than reading tables that are not ours.
        Reader { layout: &self.layout, family, contents }.read(&run(&program, &[], "")?);
        Ok(())
    }

    pub(crate) fn read(&mut self) -> Result<Contents, Error> {
        self.noted.clear();
        self.generation = self.current_generation()?;
        self.note_compared();
        if self.variant == Variant::Legacy {
            self.ledger.begin_read(legacy_counts)?;
        }
        let mut contents = Contents::new();
        for family in self.families.served() {
            self.read_family(family, &mut contents)?;
            self.read.insert(family);
        }
        self.tally.note_read(&contents);
        Ok(contents)
    }

    /// What the chains hold that the watch has noted, beside what they are expected to hold. `None` if everything has to be read:
    /// there are too many, or one is gone.
    pub(crate) fn read_noted(&mut self, expected: &Contents) -> Option<(Contents, Contents)> {
        let places = self.noted.take()?;
        let mut held = Contents::new();
        for place in places.iter().filter(|place| self.families.serve(place.family)) {
            self.read_chain(place, &mut held).ok()?;
        }
        let of_places = expected.iter().filter(|(key, _)| places.contains(key.place()));
        let expected: Contents = of_places.map(|(key, value)| (key.clone(), value.clone())).collect();
        self.tally.replace(&expected, &held);
        Some((held, expected))
    }

    fn read_chain(&self, place: &Place, contents: &mut Contents) -> Result<(), Error> {
        let flags = ["-t", place.table.name(), "-S", &*place.chain];
        let rules = run(&listing_program(place.family, self.variant), &flags, "")?;
        let text = format!("*{}\n:{} - [0:0]\n{rules}", place.table.name(), place.chain);
        Reader { layout: &self.layout, family: place.family, contents }.read(&text);
        Ok(())
    }

    pub(crate) fn serves(&self, family: Family) -> bool {
        self.families.serve(family)
    }

    pub(crate) fn is_undisturbed(&mut self) -> Result<bool, Error> {
        Ok(self.generation.is_some() && self.current_generation()? == self.generation)
    }

    /// `iptables-restore` cannot make a write conditional on the absence of foreign writes.
    pub(crate) fn write(&mut self, removed: &Contents, added: &Contents) -> Result<(), Error> {
        let ledger = self.ledger.clone();
        let writing = ledger.begin_write();
        let longest = if self.variant == Variant::Nft { LONGEST_NFT_PART } else { usize::MAX };
        let expected = self.generation.take();
        let mut commits = 0;
        for script in scripts(removed, added, longest) {
            let program = program(script.family, self.variant, "restore");
            let outcome = run(&program, &["--noflush", "-w", LOCK_SECONDS], &script.text);
            let is_whole = self.read.remove(&script.family);
            outcome.inspect_err(|_| self.tally.note_failure(script.family, is_whole))?;
            commits += script.tables;
        }
        self.tally.note_written(removed, added);
        writing.finish(size_changes(removed, added));
        let expected = expected.map(|generation| generation.wrapping_add(commits));
        self.generation = self.current_generation()?.filter(|now| Some(*now) == expected);
        self.note_compared();
        Ok(())
    }

    /// All commits up to this generation are either in what was read or our own.
    fn note_compared(&self) {
        if let Some(generation) = self.generation {
            self.compared.set(generation);
        }
    }
}
