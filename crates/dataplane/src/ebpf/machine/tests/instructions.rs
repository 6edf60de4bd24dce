//! Each class of instructions, forks, and the limits.

use portolan_kernel::bpf::map::kind::HASH;
use portolan_kernel::bpf::{Code, Instruction, MapDefinition, Object, Reference};

use super::super::{Outcome, Step, Unsupported, World, run};
use super::Table;

const EXIT: Instruction = Instruction { opcode: 0x95, destination: 0, source: 0, offset: 0, immediate: 0 };
const RANDOM: i32 = 7;

fn it(opcode: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { opcode, destination, source, offset, immediate }
}

/// `destination = immediate`, 64 bits.
fn set(destination: u8, immediate: i32) -> Instruction {
    it(0xb7, destination, 0, 0, immediate)
}

fn call(helper: i32) -> Instruction {
    it(0x85, 0, 0, 0, helper)
}

fn code(instructions: &[Instruction]) -> Code {
    let instructions = [instructions, &[EXIT]].concat();
    Code { name: "test".into(), instructions, ..Code::default() }
}

fn run_code(code: &Code, object: &Object) -> Result<Vec<Outcome>, Unsupported> {
    let mut table = Table::default();
    table.add("map", vec![1, 0, 0, 0], vec![9, 0, 0, 0]);
    let world =
        World { object, maps: &table, rodata: &[1, 2, 3, 4, 5, 6, 7, 8], netns_cookie: 11, cgroup: 12, now: 13 };
    run(&world, code, &[7; 72])
}

fn outcomes(instructions: &[Instruction]) -> Result<Vec<Outcome>, Unsupported> {
    run_code(&code(instructions), &Object::default())
}

/// What a program without choices returns.
fn result(instructions: &[Instruction]) -> u64 {
    let outcomes = outcomes(instructions).unwrap();
    assert_eq!(outcomes.len(), 1);
    outcomes[0].returned
}

fn reason(instructions: &[Instruction]) -> String {
    outcomes(instructions).unwrap_err().reason
}

#[test]
fn arithmetic_of_64_bits() {
    let of = |opcode: u8, one: i32, other: i32| result(&[set(0, one), it(opcode, 0, 0, 0, other)]) as i64;
    let cases = [
        (0x07, 5, -7, -2),
        (0x17, 5, 7, -2),
        (0x27, -5, 7, -35),
        (0x37, 36, 7, 5),
        (0x47, 4, 1, 5),
        (0x57, 6, 3, 2),
        (0x67, 1, 40, 1 << 40),
        (0x77, 256, 4, 16),
        (0x87, 5, 0, -5),
        (0x97, 36, 7, 1),
        (0xa7, 6, 3, 5),
        (0xb7, 6, -3, -3),
        (0xc7, -256, 4, -16),
    ];
    for (opcode, one, other, expected) in cases {
        assert_eq!(of(opcode, one, other), expected, "{opcode:#x}");
    }
    assert_eq!(of(0x37, 5, 0), 0, "division by zero");
    assert_eq!(of(0x97, 5, 0), 5, "remainder by zero");
    assert_eq!(result(&[set(0, 5), set(2, 7), it(0x0f, 0, 2, 0, 0)]), 12, "a register as operand");
}

#[test]
fn arithmetic_of_32_bits_clears_the_others() {
    let of = |opcode: u8, one: i32, other: i32| result(&[set(0, one), it(opcode, 0, 0, 0, other)]);
    assert_eq!(of(0x04, -1, 2), 1);
    assert_eq!(of(0x14, 1, 2), u64::from(u32::MAX));
    assert_eq!(of(0x24, 1 << 30, 8), 0);
    assert_eq!(of(0x74, -1, 28), 15);
    assert_eq!(of(0xb4, -1, -1), u64::from(u32::MAX));
    assert_eq!(of(0xc4, -16, 2), u64::from(-4i32 as u32));
}

#[test]
fn byte_order() {
    let of = |opcode: u8, bits: i32| result(&[set(0, 0x0102_0304), it(opcode, 0, 0, 0, bits)]);
    assert_eq!(of(0xdc, 16), 0x0403);
    assert_eq!(of(0xdc, 32), 0x0403_0201);
    assert_eq!(of(0xdc, 64), 0x0403_0201_0000_0000);
    assert_eq!(of(0xd4, 16), 0x0304);
}

#[test]
fn jumps_compare_with_and_without_signs() {
    let jumps = |opcode: u8, one: i32, other: i32| {
        result(&[set(2, one), set(0, 1), it(opcode, 2, 0, 1, other), set(0, 0)]) == 1
    };
    for (opcode, one, other, expected) in [
        (0x15, 1, 1, true),
        (0x25, -1, 1, true),
        (0x35, 1, 1, true),
        (0x45, 6, 1, false),
        (0x55, 1, 1, false),
        (0x65, -1, 1, false),
        (0x75, 1, 1, true),
        (0xa5, -1, 1, false),
        (0xb5, 1, 1, true),
        (0xc5, -1, 1, true),
        (0xd5, 2, 1, false),
        (0x16, -1, -1, true),
        (0xc6, -1, 1, true),
    ] {
        assert_eq!(jumps(opcode, one, other), expected, "{opcode:#x} {one} {other}");
    }
    assert_eq!(result(&[set(0, 1), it(0x05, 0, 0, 1, 0), set(0, 2)]), 1, "always");
}

#[test]
fn memory_is_loaded_and_stored_in_every_size() {
    assert_eq!(result(&[it(0x61, 0, 1, 4, 0)]), 0x0707_0707, "a word of the context");
    assert_eq!(result(&[it(0x69, 0, 1, 4, 0)]), 0x0707);
    assert_eq!(result(&[it(0x71, 0, 1, 4, 0)]), 0x07);
    assert_eq!(result(&[it(0x7a, 10, 0, -8, -2), it(0x79, 0, 10, -8, 0)]) as i64, -2);
    let add = [it(0x7a, 10, 0, -8, 5), set(2, 3), it(0xdb, 10, 2, -8, 0), it(0x79, 0, 10, -8, 0)];
    assert_eq!(result(&add), 8, "an atomic addition");
    let store = [it(0xb7, 2, 0, 0, 0x0102), it(0x6b, 1, 2, 24, 0), set(0, 1)];
    assert_eq!(outcomes(&store).unwrap()[0].context[24..26], [2, 1]);
}

#[test]
fn numbers_of_64_bits_and_constants_take_two_instructions() {
    let number = [it(0x18, 0, 0, 0, -1), it(0, 0, 0, 0, 1)];
    assert_eq!(result(&number), 0x1_ffff_ffff);
    let mut constant = code(&[it(0x18, 2, 2, 0, 0), it(0, 0, 0, 0, 0), it(0x61, 0, 2, 0, 0)]);
    constant.references.insert(0, Reference::Rodata(4));
    assert_eq!(run_code(&constant, &Object::default()).unwrap()[0].returned, 0x0807_0605);
    constant.instructions[2] = it(0x7a, 2, 0, 0, 0);
    let error = run_code(&constant, &Object::default()).unwrap_err();
    assert!(error.reason.contains("writes 8 bytes"), "{error}");
}

#[test]
fn helpers_give_what_the_world_has() {
    assert_eq!(result(&[call(122)]), 11);
    assert_eq!(result(&[call(80)]), 12);
    assert_eq!(result(&[call(5)]), 13);
    let refused = outcomes(&[set(1, -111), call(187), set(0, 0)]).unwrap();
    assert_eq!((refused[0].returned, refused[0].retval), (0, Some(-111)));
}

#[test]
fn lookups_and_updates_are_steps() {
    let map = MapDefinition { name: "map".into(), kind: HASH, key_size: 4, value_size: 4, ..MapDefinition::default() };
    let object = Object { maps: vec![map], ..Object::default() };
    let look_up = |key: i32| {
        let key_on_stack = [it(0x62, 10, 0, -4, key), it(0xbf, 2, 10, 0, 0), it(0x07, 2, 0, 0, -4)];
        [&key_on_stack[..], &[it(0x18, 1, 1, 0, 0), it(0, 0, 0, 0, 0), call(1)]].concat()
    };
    let with_map = |instructions: &[Instruction], at: usize| {
        let mut code = code(instructions);
        code.references.insert(at, Reference::Map(0));
        run_code(&code, &object).unwrap().swap_remove(0)
    };
    let found = with_map(&[look_up(1), vec![it(0x61, 0, 0, 0, 0)]].concat(), 3);
    assert_eq!(found.returned, 9);
    let key = vec![1, 0, 0, 0];
    assert_eq!(found.steps, [Step::Found { map: "map".into(), key, value: vec![9, 0, 0, 0] }]);
    let missing = with_map(&look_up(2), 3);
    assert_eq!(missing.returned, 0);
    assert_eq!(missing.steps, [Step::Missing { map: "map".into(), key: vec![2, 0, 0, 0] }]);

    let update = |flags: i32, key: i32| {
        let arguments = [it(0x62, 10, 0, -4, key), it(0x62, 10, 0, -8, 5), it(0xbf, 2, 10, 0, 0)];
        let rest = [it(0x07, 2, 0, 0, -4), it(0xbf, 3, 10, 0, 0), it(0x07, 3, 0, 0, -8), set(4, flags)];
        [&arguments[..], &rest, &[it(0x18, 1, 1, 0, 0), it(0, 0, 0, 0, 0), call(2)]].concat()
    };
    let written = with_map(&update(0, 1), 7);
    assert_eq!(written.returned, 0);
    assert_eq!(written.steps, [Step::Written { map: "map".into(), key: vec![1, 0, 0, 0], value: vec![5, 0, 0, 0] }]);
    assert_eq!(with_map(&update(1, 1), 7).returned as i64, -17, "only a new entry");
    assert_eq!(with_map(&update(1, 2), 7).returned, 0);
}

/// `random * count >> 32`, as the compiler writes it.
fn choice(count: i32) -> Vec<Instruction> {
    let extend = [call(RANDOM), it(0x67, 0, 0, 0, 32), it(0x77, 0, 0, 0, 32)];
    [&extend[..], &[it(0x27, 0, 0, 0, count), it(0x77, 0, 0, 0, 32)]].concat()
}

#[test]
fn a_random_choice_goes_every_way_with_the_same_share() {
    let three = outcomes(&choice(3)).unwrap();
    assert_eq!(three.iter().map(|it| it.returned).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(three.iter().all(|it| (it.share - 1.0 / 3.0).abs() < 1e-9));
    let twice = [choice(2), vec![it(0xbf, 6, 0, 0, 0)], choice(3), vec![it(0x0f, 0, 6, 0, 0)]].concat();
    let six = outcomes(&twice).unwrap();
    assert_eq!(six.len(), 6);
    assert!((six.iter().map(|it| it.share).sum::<f64>() - 1.0).abs() < 1e-9);
    // The move of 32 bits extends, too; the count may be on the left.
    let narrow = [call(RANDOM), it(0xbc, 0, 0, 0, 0), set(2, 4), it(0x2f, 2, 0, 0, 0), it(0x77, 2, 0, 0, 32)];
    assert_eq!(outcomes(&[&narrow[..], &[it(0xbf, 0, 2, 0, 0)]].concat()).unwrap().len(), 4);
}

#[test]
fn every_other_use_of_a_random_number_is_an_error() {
    let something_else = "a random number is used for something else than a choice";
    for use_of_it in [
        it(0x57, 0, 0, 0, 1),
        it(0x97, 0, 0, 0, 3),
        it(0x07, 0, 0, 0, 1),
        it(0x27, 0, 0, 0, 3),
        it(0x15, 0, 0, 0, 0),
        it(0x7b, 10, 0, -8, 0),
        it(0xdc, 0, 0, 0, 32),
    ] {
        assert_eq!(reason(&[call(RANDOM), use_of_it]), something_else, "{use_of_it:?}");
    }
    assert_eq!(reason(&[call(RANDOM)]), "it returns a random number");
    assert!(reason(&choice(0)).contains("of none"));
}

#[test]
fn what_is_not_known_is_an_error() {
    assert_eq!(reason(&[call(6)]), "the helper 6 is not known");
    assert_eq!(reason(&[it(0x20, 0, 0, 0, 0)]), "the opcode 0x20 is not known");
    assert_eq!(reason(&[it(0xe7, 0, 0, 0, 0)]), "the register 0 has no value");
    assert_eq!(reason(&[set(0, 0), it(0xe7, 0, 0, 0, 0)]), "the opcode 0xe7 is not known");
    assert_eq!(reason(&[set(0, 0), it(0x37, 0, 0, 1, 1)]), "the opcode 0x37 is not known", "signed division");
    assert_eq!(reason(&[it(0x85, 0, 1, 0, 1)]), "a call of something else than a helper");
    assert_eq!(reason(&[set(0, 0), it(0xdb, 10, 0, -8, 1)]), "the opcode 0xdb is not known", "an atomic fetch");
    assert_eq!(reason(&[]), "the register 0 has no value");
    assert_eq!(reason(&[it(0xbf, 0, 1, 0, 0), call(5), it(0xbf, 0, 1, 0, 0)]), "the register 1 has no value");
    assert_eq!(reason(&[set(10, 0)]), "the register 10 cannot be written");
    assert_eq!(reason(&[set(15, 0)]), "the register 15 cannot be written");
    assert_eq!(reason(&[it(0x05, 0, 0, -2, 0)]), "a jump to before the program");
    assert_eq!(reason(&[it(0x05, 0, 0, 20, 0)]), "the program has no end");
    assert!(reason(&[it(0x79, 0, 10, 0, 0)]).contains("reads 8 bytes"), "behind the stack");
    assert!(reason(&[it(0x79, 0, 1, 68, 0)]).contains("reads 8 bytes"), "behind the context");
    assert!(reason(&[set(2, 0), it(0x79, 0, 2, 0, 0)]).contains("reads 8 bytes"), "nothing");
}

#[test]
fn runs_are_bounded() {
    assert!(reason(&[it(0x05, 0, 0, -1, 0)]).contains("steps"), "a loop");
    assert!(reason(&choice(100_000)).contains("ways"));
    assert_eq!(outcomes(&choice(60_000)).unwrap().len(), 60_000);
}
