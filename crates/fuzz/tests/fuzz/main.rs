//! Every fuzz target on its corpus, and for a moment on mutated inputs, the same ones each time. `make fuzz` goes on from
//! here, guided by coverage.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use portolan_fuzz::{TARGETS, Target};

/// The mutated inputs of each target; a slow machine does as many as fit into the time.
const INPUTS: usize = 20_000;
const LONGEST: Duration = Duration::from_millis(800);
const LONGEST_INPUT: usize = 8192;

fn corpora() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The files of a corpus, with their names, in a fixed order.
fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = corpora().join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    files.sort();
    let read = |path: &PathBuf| {
        (path.file_name().expect("a file").to_string_lossy().into_owned(), fs::read(path).expect("it can be read"))
    };
    files.iter().map(read).collect()
}

/// Fails with the input, so that it can be put into the corpus.
fn run(name: &str, target: Target, origin: &str, input: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(input))).is_err() {
        let kept = std::env::temp_dir().join(format!("portolan-fuzz-{name}"));
        fs::write(&kept, input).expect("the input can be kept");
        panic!("{name} fails on {origin}, which is kept in {}; the message is above", kept.display());
    }
}

#[test]
fn every_corpus_belongs_to_a_target() {
    let mut folders: Vec<String> = fs::read_dir(corpora())
        .expect("there are corpora")
        .map(|entry| entry.expect("the folder can be read").file_name().to_string_lossy().into_owned())
        .collect();
    folders.sort();
    let mut targets: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    targets.sort_unstable();
    assert_eq!(folders, targets);
}

#[test]
fn corpora_are_harmless() {
    for (name, target) in TARGETS {
        let files = corpus(name);
        assert!(!files.is_empty(), "{name} has no corpus");
        files.iter().for_each(|(file, input)| run(name, *target, file, input));
    }
}

#[test]
fn mutated_inputs_are_harmless() {
    for (name, target) in TARGETS {
        let files: Vec<Vec<u8>> = corpus(name).into_iter().map(|(_, input)| input).collect();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let start = Instant::now();
        let count = (0..INPUTS).take_while(|number| {
            run(name, *target, &format!("mutated input {number}"), &random.mutated(&files));
            start.elapsed() < LONGEST
        });
        println!("{name}: {} mutated inputs in {:.1?}", count.count(), start.elapsed());
    }
}

/// A random generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        const LIKELY: &[u8] = &[0, 1, 2, 4, 0x7f, 0x80, 0xc0, 0xff, b' ', b'\n', b'"', b'{', b'-', b'0', b'a'];
        if self.below(2) == 0 { LIKELY[self.below(LIKELY.len())] } else { self.below(256) as u8 }
    }

    /// A file of the corpus with some changes: bytes replaced, inserted, removed, or taken from another file.
    fn mutated(&mut self, files: &[Vec<u8>]) -> Vec<u8> {
        let mut input = files[self.below(files.len())].clone();
        for _ in 0..=self.below(5) {
            let place = self.below(input.len() + 1);
            match self.below(5) {
                0 if place < input.len() => input[place] = self.byte(),
                1 => input.insert(place, self.byte()),
                2 => drop(input.drain(place..(place + self.below(16)).min(input.len()))),
                3 => input.truncate(place),
                _ => {
                    let other = &files[self.below(files.len())];
                    input.splice(place..place, other.iter().skip(self.below(other.len())).take(64).copied());
                }
            }
        }
        input.truncate(LONGEST_INPUT);
        input
    }
}
