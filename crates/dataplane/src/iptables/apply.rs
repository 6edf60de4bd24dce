//! The kernel's iptables tables, through the iptables programs.

use portolan_model::Family;

use super::{Iptables, chains};
use crate::drift::WatchForeignChanges;
use crate::tables::{RuleTally, TablesKernel, Variant};
use crate::{Change, Error, Objects, Observe, Program};

pub struct IptablesKernel(TablesKernel);

impl IptablesKernel {
    /// For the network namespace of the calling thread.
    pub fn open(variant: Variant) -> Result<Self, Error> {
        Ok(Self(TablesKernel::open(variant, chains::layout())?))
    }

    pub fn tally(&self) -> &RuleTally {
        self.0.tally()
    }

    pub fn variant(&self) -> Variant {
        self.0.variant()
    }

    pub(super) fn watch(&self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        self.0.watch()
    }
}

impl Observe<Iptables> for IptablesKernel {
    fn read(&mut self) -> Result<Objects<Iptables>, Error> {
        Ok(Objects(self.0.read()?))
    }

    fn read_noted(&mut self, expected: &Objects<Iptables>) -> Result<Option<Change<Iptables>>, Error> {
        let noted = self.0.read_noted(&expected.0);
        Ok(noted.map(|(held, expected)| Change::between(Objects(held), Objects(expected))))
    }

    fn is_undisturbed(&mut self) -> Result<bool, Error> {
        self.0.is_undisturbed()
    }

    fn serves(&self, family: Family) -> bool {
        self.0.serves(family)
    }
}

impl Program<Iptables> for IptablesKernel {
    fn apply(&mut self, change: &Change<Iptables>, _: bool) -> Result<(), Error> {
        self.0.write(&change.removed, &change.added)
    }
}
