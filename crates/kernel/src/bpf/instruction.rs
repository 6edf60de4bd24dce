//! One BPF instruction, and its eight bytes.

/// The bytes of an instruction. The one that loads 64 bits takes two.
pub const LENGTH: usize = 8;

/// Loads a 64-bit number, which continues in the next instruction; also a map, or the address of a constant.
pub const LOAD_64: u8 = 0x18;
pub const CALL: u8 = 0x85;
pub const EXIT: u8 = 0x95;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Instruction {
    pub opcode: u8,
    pub destination: u8,
    pub source: u8,
    pub offset: i16,
    pub immediate: i32,
}

impl Instruction {
    pub fn decode(bytes: [u8; LENGTH]) -> Self {
        let [opcode, registers, low, high, immediate @ ..] = bytes;
        Self {
            opcode,
            destination: registers & 0xf,
            source: registers >> 4,
            offset: i16::from_le_bytes([low, high]),
            immediate: i32::from_le_bytes(immediate),
        }
    }

    pub fn encode(self) -> [u8; LENGTH] {
        let [low, high] = self.offset.to_le_bytes();
        let [first, second, third, fourth] = self.immediate.to_le_bytes();
        [self.opcode, self.destination | self.source << 4, low, high, first, second, third, fourth]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_survives_a_second_encoding() {
        let bytes = [0x61, 0x21, 0xf8, 0xff, 1, 0, 0, 0x80];
        let instruction = Instruction::decode(bytes);
        let expected = Instruction { opcode: 0x61, destination: 1, source: 2, offset: -8, immediate: i32::MIN + 1 };
        assert_eq!(instruction, expected);
        assert_eq!(instruction.encode(), bytes);
    }
}
