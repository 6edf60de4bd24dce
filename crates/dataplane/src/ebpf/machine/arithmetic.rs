//! Arithmetic, and the one form in which a program may use a random number.

use portolan_kernel::bpf::Instruction;

use super::Run;
use super::step::{Next, unknown};
use super::value::Value;

const ADD: u8 = 0x0;
const SUBTRACT: u8 = 0x1;
const MULTIPLY: u8 = 0x2;
const DIVIDE: u8 = 0x3;
const OR: u8 = 0x4;
const AND: u8 = 0x5;
const SHIFT_LEFT: u8 = 0x6;
const SHIFT_RIGHT: u8 = 0x7;
const NEGATE: u8 = 0x8;
const REMAINDER: u8 = 0x9;
const EXCLUSIVE_OR: u8 = 0xa;
const MOVE: u8 = 0xb;
const SHIFT_SIGNED: u8 = 0xc;
const BYTE_ORDER: u8 = 0xd;

/// The class of 64 bits.
const WIDE: u8 = 7;
/// The order of the network, where the other one is that of the host.
const TO_BIG_ENDIAN: u8 = 0x08;

const WORD: u64 = 32;

impl Run {
    pub(super) fn calculate(&mut self, instruction: Instruction) -> Result<Next, String> {
        let (opcode, register) = (instruction.opcode, instruction.destination);
        let (code, is_wide) = (opcode >> 4, opcode & 7 == WIDE);
        // Later kernels use the offset for other operations: signed division, moves with a sign.
        if instruction.offset != 0 {
            return Err(unknown(opcode));
        }
        if code == BYTE_ORDER {
            let value = swap(instruction, self.registers.known(register)?)?;
            return self.finish(register, Value::Known(value));
        }
        let other = self.operand(instruction)?;
        if code == MOVE {
            return self.finish(register, moved(other, is_wide)?);
        }
        let value = match (self.registers.get(register)?, other) {
            (Value::Known(one), Value::Known(other)) => Value::Known(known(opcode, is_wide, one, other)?),
            (one, other) => match follow(code, is_wide, one, other)? {
                Followed::Choice(count) => return Ok(Next::Choice(register, count)),
                Followed::Value(value) => value,
            },
        };
        self.finish(register, value)
    }

    fn finish(&mut self, register: u8, value: Value) -> Result<Next, String> {
        self.registers.set(register, value)?;
        Ok(Next::Continue)
    }
}

enum Followed {
    Value(Value),
    Choice(u32),
}

/// A move of 32 bits clears those above them.
fn moved(value: Value, is_wide: bool) -> Result<Value, String> {
    match value {
        _ if is_wide => Ok(value),
        Value::Known(number) => Ok(Value::Known(number & u64::from(u32::MAX))),
        Value::Random | Value::RandomWord => Ok(Value::RandomWord),
        Value::RandomAbove | Value::Product(_) => value.known().map(Value::Known),
    }
}

/// The steps of `random * n >> 32`, with what a compiler writes to make 64 bits of 32.
fn follow(code: u8, is_wide: bool, one: Value, other: Value) -> Result<Followed, String> {
    let value = match (code, one, other) {
        (SHIFT_LEFT, Value::Random | Value::RandomWord, Value::Known(WORD)) if is_wide => Value::RandomAbove,
        (SHIFT_RIGHT, Value::RandomAbove, Value::Known(WORD)) if is_wide => Value::RandomWord,
        (MULTIPLY, Value::RandomWord, Value::Known(count)) | (MULTIPLY, Value::Known(count), Value::RandomWord)
            if is_wide =>
        {
            let count = u32::try_from(count).ok().filter(|count| *count > 0);
            Value::Product(count.ok_or("a random choice of none, or of too many")?)
        }
        (SHIFT_RIGHT, Value::Product(count), Value::Known(WORD)) if is_wide => return Ok(Followed::Choice(count)),
        _ => return Err("a random number is used for something else than a choice".to_owned()),
    };
    Ok(Followed::Value(value))
}

fn known(opcode: u8, is_wide: bool, one: u64, other: u64) -> Result<u64, String> {
    if is_wide {
        return wide(opcode >> 4, one, other).ok_or_else(|| unknown(opcode));
    }
    let (one, other) = (one as u32, other as u32);
    narrow(opcode >> 4, one, other).map(u64::from).ok_or_else(|| unknown(opcode))
}

/// Division by zero is zero, and leaves the number as the remainder. Shifts use the lower bits of their operand.
fn wide(code: u8, one: u64, other: u64) -> Option<u64> {
    Some(match code {
        ADD => one.wrapping_add(other),
        SUBTRACT => one.wrapping_sub(other),
        MULTIPLY => one.wrapping_mul(other),
        DIVIDE => one.checked_div(other).unwrap_or(0),
        OR => one | other,
        AND => one & other,
        SHIFT_LEFT => one.wrapping_shl(other as u32),
        SHIFT_RIGHT => one.wrapping_shr(other as u32),
        NEGATE => one.wrapping_neg(),
        REMAINDER => one.checked_rem(other).unwrap_or(one),
        EXCLUSIVE_OR => one ^ other,
        SHIFT_SIGNED => one.cast_signed().wrapping_shr(other as u32).cast_unsigned(),
        _ => return None,
    })
}

fn narrow(code: u8, one: u32, other: u32) -> Option<u32> {
    Some(match code {
        ADD => one.wrapping_add(other),
        SUBTRACT => one.wrapping_sub(other),
        MULTIPLY => one.wrapping_mul(other),
        DIVIDE => one.checked_div(other).unwrap_or(0),
        OR => one | other,
        AND => one & other,
        SHIFT_LEFT => one.wrapping_shl(other),
        SHIFT_RIGHT => one.wrapping_shr(other),
        NEGATE => one.wrapping_neg(),
        REMAINDER => one.checked_rem(other).unwrap_or(one),
        EXCLUSIVE_OR => one ^ other,
        SHIFT_SIGNED => one.cast_signed().wrapping_shr(other).cast_unsigned(),
        _ => return None,
    })
}

/// The host is little-endian, as the objects are.
fn swap(instruction: Instruction, number: u64) -> Result<u64, String> {
    // The same operation of 64 bits is another one in later kernels.
    if instruction.opcode & 7 == WIDE {
        return Err(unknown(instruction.opcode));
    }
    let is_swapped = instruction.opcode & TO_BIG_ENDIAN != 0;
    match (instruction.immediate, is_swapped) {
        (16, true) => Ok((number as u16).swap_bytes().into()),
        (32, true) => Ok((number as u32).swap_bytes().into()),
        (64, true) => Ok(number.swap_bytes()),
        (16, false) => Ok((number as u16).into()),
        (32, false) => Ok((number as u32).into()),
        (64, false) => Ok(number),
        _ => Err(unknown(instruction.opcode)),
    }
}
