//! The registers of one rule: sixteen words, some of which may hold what is known in part only.

use portolan_kernel::nftables::Register;

use super::load::OtherInterface;
use super::table::Unsupported;

const BYTES: usize = 64;
const WORD: usize = 4;

#[derive(Clone)]
pub(super) struct Registers {
    bytes: [u8; BYTES],
    /// A register that holds an interface of which no more is known than that it is not the loopback interface.
    interface: Option<(Register, OtherInterface)>,
    /// A register that holds the port of the client.
    unknown: Option<Register>,
}

impl Registers {
    pub(super) fn new() -> Self {
        Self { bytes: [0; BYTES], interface: None, unknown: None }
    }

    /// A value that is shorter than its words leaves zeros behind it, as in the kernel.
    pub(super) fn store(&mut self, register: Register, value: &[u8]) -> Result<(), Unsupported> {
        let start = usize::from(register.0) * WORD;
        let words = self.bytes.get_mut(start..start + value.len().next_multiple_of(WORD)).ok_or_else(outside)?;
        words.fill(0);
        words[..value.len()].copy_from_slice(value);
        self.interface = self.interface.filter(|(known, _)| *known != register);
        self.unknown = self.unknown.filter(|unknown| *unknown != register);
        Ok(())
    }

    pub(super) fn store_interface(&mut self, register: Register, interface: OtherInterface) {
        self.interface = Some((register, interface));
    }

    pub(super) fn store_unknown(&mut self, register: Register) {
        self.unknown = Some(register);
    }

    /// The interface in this register, if it holds one that is known in part only.
    pub(super) fn interface(&self, register: Register) -> Option<OtherInterface> {
        self.interface.filter(|(known, _)| *known == register).map(|(_, interface)| interface)
    }

    pub(super) fn bytes(&self, register: Register, length: usize) -> Result<&[u8], Unsupported> {
        let start = usize::from(register.0) * WORD;
        let end = start + length;
        let holds = |register: &Register| (start..end).contains(&(usize::from(register.0) * WORD));
        if let Some((_, interface)) = self.interface.as_ref().filter(|(register, _)| holds(register)) {
            return Err(Unsupported(format!("{} is not known", interface.what)));
        }
        if self.unknown.as_ref().is_some_and(holds) {
            return Err(Unsupported("the port of the client".to_owned()));
        }
        self.bytes.get(start..end).ok_or_else(outside)
    }

    pub(super) fn number(&self, register: Register) -> Result<u32, Unsupported> {
        let bytes = self.bytes(register, WORD)?;
        bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes)).ok_or_else(outside)
    }
}

fn outside() -> Unsupported {
    Unsupported("a register that does not exist".to_owned())
}
