//! The kernel's tables, by the programs of iptables.

use portolan_kernel::nftables::Nftables as Handle;
use portolan_model::Family;

use super::objects::Table;
use super::programs::{LOCK_SECONDS, Variant, program, run};
use super::read::Reader;
use super::script::scripts;
use super::{Contents, Layout};
use crate::Error;

/// The nf_tables variant takes time that grows with the square of the lines of one call. The other one replaces whole
/// tables, so that every call costs as much as there is in them.
const LONGEST_NFT_PART: usize = 4_000;

pub(crate) struct TablesKernel {
    layout: Layout,
    variant: Variant,
    handle: Handle,
    /// The kernel counts every commit to nf_tables by anybody: what it has counted to if all commits since our last
    /// read were ours. `None` if somebody else's were among them, or if nothing is counted.
    generation: Option<u32>,
}

impl TablesKernel {
    /// For the network namespace that the calling thread is in.
    pub(crate) fn open(variant: Variant, layout: Layout) -> Result<Self, Error> {
        Ok(Self { layout, variant, handle: Handle::open()?, generation: None })
    }

    pub(crate) fn variant(&self) -> Variant {
        self.variant
    }

    fn current_generation(&mut self) -> Result<Option<u32>, Error> {
        match self.variant {
            Variant::Nft => Ok(Some(self.handle.generation()?)),
            Variant::Legacy => Ok(None),
        }
    }

    fn read_family(&mut self, family: Family, contents: &mut Contents) -> Result<(), Error> {
        let program = program(family, self.variant, "save");
        let mut reader = Reader { layout: &self.layout, family, contents };
        for table in Table::ALL {
            reader.read(&run(&program, &["-t", table.name()], "")?);
        }
        Ok(())
    }

    pub(crate) fn read(&mut self) -> Result<Contents, Error> {
        self.generation = self.current_generation()?;
        let mut contents = Contents::new();
        for family in Family::BOTH {
            self.read_family(family, &mut contents)?;
        }
        Ok(contents)
    }

    pub(crate) fn is_undisturbed(&mut self) -> Result<bool, Error> {
        Ok(self.generation.is_some() && self.current_generation()? == self.generation)
    }

    /// The programs cannot refuse a change because somebody else wrote: iptables has no such thing.
    pub(crate) fn write(&mut self, removed: &Contents, added: &Contents) -> Result<(), Error> {
        let longest = if self.variant == Variant::Nft { LONGEST_NFT_PART } else { usize::MAX };
        let expected = self.generation.take();
        let mut commits = 0;
        for script in scripts(removed, added, longest) {
            let program = program(script.family, self.variant, "restore");
            run(&program, &["--noflush", "-w", LOCK_SECONDS], &script.text)?;
            commits += script.tables;
        }
        let expected = expected.map(|generation| generation.wrapping_add(commits));
        self.generation = self.current_generation()?.filter(|now| Some(*now) == expected);
        Ok(())
    }
}
