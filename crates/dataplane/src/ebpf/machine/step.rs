//! One instruction.

use portolan_kernel::bpf::instruction::{CALL, EXIT, LOAD_64};
use portolan_kernel::bpf::{Code, Instruction, Reference};

use super::memory::{MAPS, RODATA};
use super::value::Value;
use super::{Run, World};

pub(super) enum Next {
    Continue,
    /// The register takes each of so many values.
    Choice(u8, u32),
    Exit,
}

/// The classes of instructions, in their lowest three bits.
const LOAD: u8 = 1;
const STORE_IMMEDIATE: u8 = 2;
const STORE: u8 = 3;
const ARITHMETIC_32: u8 = 4;
const JUMP: u8 = 5;
const JUMP_32: u8 = 6;
const ARITHMETIC_64: u8 = 7;

const JUMP_ALWAYS: u8 = 0x05;
/// The second operand is a register, not the immediate.
const FROM_REGISTER: u8 = 0x08;

/// How memory is accessed, in the highest three bits.
const ACCESS: u8 = 0xe0;
const ORDINARY: u8 = 0x60;
const ATOMIC: u8 = 0xc0;
const ATOMIC_ADD: i32 = 0;

impl Run {
    pub(super) fn step(&mut self, world: &World<'_>, program: &Code) -> Result<Next, String> {
        let instruction = *program.instructions.get(self.position).ok_or("the program has no end")?;
        let mut next = Next::Continue;
        let mut offset = 0;
        match (instruction.opcode, instruction.opcode & 7) {
            (LOAD_64, _) => self.load_64(program, instruction)?,
            (CALL, _) => self.call(world, program, instruction)?,
            (EXIT, _) => return Ok(Next::Exit),
            (JUMP_ALWAYS, _) => offset = instruction.offset,
            (_, LOAD) => self.load(instruction)?,
            (_, STORE | STORE_IMMEDIATE) => self.store(instruction)?,
            (_, JUMP | JUMP_32) if self.is_met(instruction)? => offset = instruction.offset,
            (_, JUMP | JUMP_32) => {}
            (_, ARITHMETIC_32 | ARITHMETIC_64) => next = self.calculate(instruction)?,
            (opcode, _) => return Err(unknown(opcode)),
        }
        let position = (self.position + 1).checked_add_signed(offset.into());
        self.position = position.ok_or("a jump to before the program")?;
        Ok(next)
    }

    /// The second operand of arithmetic and of jumps.
    pub(super) fn operand(&self, instruction: Instruction) -> Result<Value, String> {
        if instruction.opcode & FROM_REGISTER != 0 {
            return self.registers.get(instruction.source);
        }
        Ok(Value::Known(i64::from(instruction.immediate).cast_unsigned()))
    }

    /// A number in two instructions, a map, or the address of a constant.
    fn load_64(&mut self, program: &Code, instruction: Instruction) -> Result<(), String> {
        let second = program.instructions.get(self.position + 1).ok_or("half of an instruction")?;
        let value = match program.references.get(&self.position) {
            Some(Reference::Map(map)) => MAPS + *map as u64,
            Some(Reference::Rodata(offset)) => RODATA + u64::from(*offset),
            Some(Reference::Function(_)) => return Err("the address of a kernel function".to_owned()),
            None => words(instruction.immediate, second.immediate),
        };
        self.position += 1;
        self.registers.set(instruction.destination, Value::Known(value))
    }

    fn load(&mut self, instruction: Instruction) -> Result<(), String> {
        if instruction.opcode & ACCESS != ORDINARY {
            return Err(unknown(instruction.opcode));
        }
        let address = self.address(instruction.source, instruction.offset)?;
        let number = self.memory.number(address, length(instruction.opcode))?;
        self.registers.set(instruction.destination, Value::Known(number))
    }

    fn store(&mut self, instruction: Instruction) -> Result<(), String> {
        let is_immediate = instruction.opcode & 7 == STORE_IMMEDIATE;
        let value = match is_immediate {
            true => i64::from(instruction.immediate).cast_unsigned(),
            false => self.registers.known(instruction.source)?,
        };
        let address = self.address(instruction.destination, instruction.offset)?;
        let length = length(instruction.opcode);
        let value = match instruction.opcode & ACCESS {
            ORDINARY => value,
            ATOMIC if !is_immediate && instruction.immediate == ATOMIC_ADD && length >= 4 => {
                self.memory.number(address, length)?.wrapping_add(value)
            }
            _ => return Err(unknown(instruction.opcode)),
        };
        self.memory.write(address, &value.to_le_bytes()[..length])
    }

    fn address(&self, register: u8, offset: i16) -> Result<u64, String> {
        Ok(self.registers.known(register)?.wrapping_add_signed(offset.into()))
    }

    /// The condition of a jump.
    fn is_met(&self, instruction: Instruction) -> Result<bool, String> {
        let (one, other) = (self.registers.known(instruction.destination)?, self.operand(instruction)?.known()?);
        let is_met = if instruction.opcode & 7 == JUMP {
            is_met(instruction.opcode, (one, other), (one.cast_signed(), other.cast_signed()))
        } else {
            let (one, other) = (one as u32, other as u32);
            let signed = (one.cast_signed().into(), other.cast_signed().into());
            is_met(instruction.opcode, (one.into(), other.into()), signed)
        };
        is_met.ok_or_else(|| unknown(instruction.opcode))
    }
}

fn is_met(opcode: u8, (one, other): (u64, u64), signed: (i64, i64)) -> Option<bool> {
    Some(match opcode >> 4 {
        0x1 => one == other,
        0x2 => one > other,
        0x3 => one >= other,
        0x4 => one & other != 0,
        0x5 => one != other,
        0x6 => signed.0 > signed.1,
        0x7 => signed.0 >= signed.1,
        0xa => one < other,
        0xb => one <= other,
        0xc => signed.0 < signed.1,
        0xd => signed.0 <= signed.1,
        _ => return None,
    })
}

/// The bytes that an instruction loads or stores.
fn length(opcode: u8) -> usize {
    match opcode & 0x18 {
        0x00 => 4,
        0x08 => 2,
        0x10 => 1,
        _ => 8,
    }
}

fn words(low: i32, high: i32) -> u64 {
    u64::from(low.cast_unsigned()) | u64::from(high.cast_unsigned()) << 32
}

pub(super) fn unknown(opcode: u8) -> String {
    format!("the opcode {opcode:#04x} is not known")
}
