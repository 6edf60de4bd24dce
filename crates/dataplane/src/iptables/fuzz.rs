//! What the fuzz target of `iptables-save` calls, with any text. The linker leaves it out of the program.

use portolan_model::Family;

use super::{Iptables, chains};
use crate::Objects;
use crate::tables::{Contents, Reader};

/// The objects of this mode in what `iptables-save` prints.
pub fn read_saved(family: Family, text: &str) -> Objects<Iptables> {
    let mut contents = Contents::new();
    Reader { layout: &chains::layout(), family, contents: &mut contents }.read(text);
    Objects(contents)
}
