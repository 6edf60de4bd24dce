//! Registers. A number that is random is followed from the helper that gives it to the choice that it makes.

/// The registers that a program may write; the eleventh is the end of the stack.
const WRITABLE: usize = 10;
const COUNT: usize = WRITABLE + 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Known(u64),
    /// A random number of 32 bits; the 32 above them are not defined.
    Random,
    /// The same, shifted left by 32.
    RandomAbove,
    /// The same as a number of 64 bits.
    RandomWord,
    /// A random word times this.
    Product(u32),
}

impl Value {
    pub(super) fn known(self) -> Result<u64, String> {
        match self {
            Self::Known(number) => Ok(number),
            _ => Err("a random number is used for something else than a choice".to_owned()),
        }
    }
}

#[derive(Clone)]
pub(super) struct Registers([Option<Value>; COUNT]);

impl Registers {
    /// The first argument is the context.
    pub(super) fn new() -> Self {
        let mut registers = [None; COUNT];
        registers[1] = Some(Value::Known(super::memory::CONTEXT));
        registers[WRITABLE] = Some(Value::Known(super::memory::STACK_END));
        Self(registers)
    }

    pub(super) fn get(&self, register: u8) -> Result<Value, String> {
        let value = self.0.get(usize::from(register)).copied().flatten();
        value.ok_or_else(|| format!("the register {register} has no value"))
    }

    pub(super) fn known(&self, register: u8) -> Result<u64, String> {
        self.get(register)?.known()
    }

    pub(super) fn set(&mut self, register: u8, value: Value) -> Result<(), String> {
        let place = self.0.get_mut(usize::from(register)).filter(|_| usize::from(register) < WRITABLE);
        *place.ok_or_else(|| format!("the register {register} cannot be written"))? = Some(value);
        Ok(())
    }

    /// A call leaves its result in the first register, and nothing in those of its arguments.
    pub(super) fn finish_call(&mut self, result: Value) {
        self.0[0] = Some(result);
        self.0[1..=5].fill(None);
    }

    /// One choice of a branch. The register was read before.
    pub(super) fn choose(&mut self, register: u8, choice: u32) {
        if let Some(place) = self.0.get_mut(usize::from(register)) {
            *place = Some(Value::Known(choice.into()));
        }
    }
}
