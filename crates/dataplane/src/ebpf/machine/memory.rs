//! The memory of a run: the stack, the context, the constants, and the values of maps that were looked up.
//!
//! Each is a region with addresses of its own, so that an access beyond one is noticed. Values of maps are copies: what a
//! program writes is seen by the rest of its run only.

use std::collections::BTreeMap;

/// The upper half of an address is the number of its region and one, the lower half the offset. Nothing is at zero.
const REGION: u32 = 32;
const STACK: usize = 0;
const STACK_LENGTH: usize = 512;

pub(super) const STACK_END: u64 = (1 << REGION) + STACK_LENGTH as u64;
pub(super) const CONTEXT: u64 = 2 << REGION;
pub(super) const RODATA: u64 = 3 << REGION;
/// Stands for the socket, and for a map with its number. Neither can be read.
pub(super) const SOCKET: u64 = 0xfffe << 48;
pub(super) const MAPS: u64 = 0xffff << 48;

/// Where `struct bpf_sock_addr` has its socket.
const CONTEXT_SOCKET: usize = 64;

#[derive(Clone)]
struct Region {
    bytes: Vec<u8>,
    is_writable: bool,
}

#[derive(Clone)]
pub(super) struct Memory {
    regions: Vec<Region>,
    /// The regions of values, by map and key.
    values: BTreeMap<(usize, Vec<u8>), usize>,
}

impl Memory {
    pub(super) fn new(context: &[u8], rodata: &[u8]) -> Self {
        let mut context = context.to_vec();
        if let Some(socket) = context.get_mut(CONTEXT_SOCKET..CONTEXT_SOCKET + 8) {
            socket.copy_from_slice(&SOCKET.to_le_bytes());
        }
        let writable = |bytes: Vec<u8>| Region { bytes, is_writable: true };
        let rodata = Region { bytes: rodata.to_vec(), is_writable: false };
        let regions = vec![writable(vec![0; STACK_LENGTH]), writable(context), rodata];
        Self { regions, values: BTreeMap::new() }
    }

    pub(super) fn context(&self) -> &[u8] {
        self.regions.get(STACK + 1).map_or(&[], |region| &region.bytes)
    }

    pub(super) fn read(&self, address: u64, length: usize) -> Result<&[u8], String> {
        let (region, offset) = place(address);
        let found = region.and_then(|region| self.regions.get(region));
        let bytes = found.and_then(|region| region.bytes.get(offset..offset.checked_add(length)?));
        bytes.ok_or_else(|| format!("reads {length} bytes at {address:#x}"))
    }

    pub(super) fn number(&self, address: u64, length: usize) -> Result<u64, String> {
        let mut bytes = [0; 8];
        let place = bytes.get_mut(..length).ok_or_else(|| format!("reads a number of {length} bytes"))?;
        place.copy_from_slice(self.read(address, length)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String> {
        let (region, offset) = place(address);
        let found = region.and_then(|region| self.regions.get_mut(region)).filter(|region| region.is_writable);
        let target = found.and_then(|region| region.bytes.get_mut(offset..offset.checked_add(bytes.len())?));
        target.ok_or_else(|| format!("writes {} bytes at {address:#x}", bytes.len()))?.copy_from_slice(bytes);
        Ok(())
    }

    /// The address of a value that this run knows.
    pub(super) fn value(&self, map: usize, key: &[u8]) -> Option<u64> {
        self.values.get(&(map, key.to_vec())).map(|region| address(*region))
    }

    /// Gives the value of an entry an address. One that was looked up before keeps its own, with the old content.
    pub(super) fn add_value(&mut self, map: usize, key: &[u8], bytes: Vec<u8>) -> u64 {
        self.regions.push(Region { bytes, is_writable: true });
        let region = self.regions.len() - 1;
        self.values.insert((map, key.to_vec()), region);
        address(region)
    }
}

fn address(region: usize) -> u64 {
    (region as u64 + 1) << REGION
}

fn place(address: u64) -> (Option<usize>, usize) {
    let region = usize::try_from(address >> REGION).ok().and_then(|region| region.checked_sub(1));
    (region, (address & u64::from(u32::MAX)) as usize)
}
