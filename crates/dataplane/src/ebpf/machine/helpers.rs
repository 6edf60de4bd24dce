//! The helpers of the kernel that programs call, by their number.

use portolan_kernel::bpf::map::kind::SK_STORAGE;
use portolan_kernel::bpf::{Code, Instruction, MapDefinition};

use super::memory::{CONTEXT, MAPS, SOCKET};
use super::value::Value;
use super::{Run, Step, World};

const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const KTIME: i32 = 5;
const RANDOM: i32 = 7;
const CGROUP_ID: i32 = 80;
const STORAGE_GET: i32 = 107;
const NETNS_COOKIE: i32 = 122;
const SET_RETVAL: i32 = 187;

/// Flags of an update: any, only new, only existing.
const ANY: u64 = 0;
const ONLY_NEW: u64 = 1;
const CREATE: u64 = 1;

const EXISTS: i64 = -17;

impl Run {
    pub(super) fn call(&mut self, world: &World<'_>, program: &Code, instruction: Instruction) -> Result<(), String> {
        if instruction.source != 0 || program.references.contains_key(&self.position) {
            return Err("a call of something else than a helper".to_owned());
        }
        let result = match instruction.immediate {
            MAP_LOOKUP => self.lookup(world)?,
            MAP_UPDATE => self.update(world)?,
            STORAGE_GET => self.storage(world)?,
            KTIME => world.now,
            CGROUP_ID => world.cgroup,
            NETNS_COOKIE => self.cookie(world)?,
            SET_RETVAL => self.set_retval()?,
            RANDOM => {
                self.registers.finish_call(Value::Random);
                return Ok(());
            }
            helper => return Err(format!("the helper {helper} is not known")),
        };
        self.registers.finish_call(Value::Known(result));
        Ok(())
    }

    fn lookup(&mut self, world: &World<'_>) -> Result<u64, String> {
        let (index, map) = self.map(world)?;
        let key = self.memory.read(self.registers.known(2)?, map.key_size as usize)?.to_vec();
        self.find(world, index, map, key)
    }

    fn update(&mut self, world: &World<'_>) -> Result<u64, String> {
        let (index, map) = self.map(world)?;
        let key = self.memory.read(self.registers.known(2)?, map.key_size as usize)?.to_vec();
        let value = self.memory.read(self.registers.known(3)?, map.value_size as usize)?.to_vec();
        match self.registers.known(4)? {
            ANY => {}
            ONLY_NEW if self.value(world, index, map, &key)?.is_some() => return Ok(EXISTS.cast_unsigned()),
            ONLY_NEW => {}
            flags => return Err(format!("an update with the flags {flags}")),
        }
        self.memory.add_value(index, &key, value.clone());
        self.steps.push(Step::Written { map: map.name.clone(), key, value });
        Ok(0)
    }

    /// The storage of the only socket; a new one is zero.
    fn storage(&mut self, world: &World<'_>) -> Result<u64, String> {
        let (index, map) = self.map(world)?;
        if map.kind != SK_STORAGE || self.registers.known(2)? != SOCKET || self.registers.known(3)? != 0 {
            return Err("the storage of something else than the socket".to_owned());
        }
        let is_created = match self.registers.known(4)? {
            0 => false,
            CREATE => true,
            flags => return Err(format!("socket storage with the flags {flags}")),
        };
        match self.value(world, index, map, &[])? {
            Some(address) => Ok(address),
            None if is_created => Ok(self.memory.add_value(index, &[], vec![0; map.value_size as usize])),
            None => Ok(0),
        }
    }

    fn cookie(&self, world: &World<'_>) -> Result<u64, String> {
        match self.registers.known(1)? {
            CONTEXT => Ok(world.netns_cookie),
            _ => Err("the network namespace of something else than the socket".to_owned()),
        }
    }

    fn set_retval(&mut self) -> Result<u64, String> {
        self.retval = Some((self.registers.known(1)? as u32).cast_signed());
        Ok(0)
    }

    fn find(&mut self, world: &World<'_>, index: usize, map: &MapDefinition, key: Vec<u8>) -> Result<u64, String> {
        let found = self.value(world, index, map, &key)?;
        let name = map.name.clone();
        self.steps.push(match found {
            Some(address) => {
                let value = self.memory.read(address, map.value_size as usize)?.to_vec();
                Step::Found { map: name, key, value }
            }
            None => Step::Missing { map: name, key },
        });
        Ok(found.unwrap_or(0))
    }

    /// The address of the value of an entry.
    fn value(
        &mut self,
        world: &World<'_>,
        index: usize,
        map: &MapDefinition,
        key: &[u8],
    ) -> Result<Option<u64>, String> {
        if let Some(address) = self.memory.value(index, key) {
            return Ok(Some(address));
        }
        let Some(value) = world.maps.lookup(&map.name, key) else { return Ok(None) };
        if value.len() != map.value_size as usize {
            return Err(format!("an entry of {} has {} bytes, not {}", map.name, value.len(), map.value_size));
        }
        Ok(Some(self.memory.add_value(index, key, value)))
    }

    /// The map of the first argument.
    fn map<'a>(&self, world: &World<'a>) -> Result<(usize, &'a MapDefinition), String> {
        let index = self.registers.known(1)?.checked_sub(MAPS).and_then(|index| usize::try_from(index).ok());
        let found = index.and_then(|index| Some((index, world.object.maps.get(index)?)));
        found.ok_or_else(|| "the argument is not a map".to_owned())
    }
}
