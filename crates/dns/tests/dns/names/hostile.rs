//! Malformed messages: nothing panics, and every response is valid.

use portolan_dns::answer::answer;
use portolan_dns::wire::{Builder, HEADER, Query, Reply};
use portolan_dns::zone::{Pods, Zone, ZoneConfig};

use super::support::{config, question, zone_with};

/// Messages to start from: queries, responses, and inputs of earlier bugs.
const CORPUS: &[&[u8]] = &[
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02db\x04shop\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01",
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x04_sql\x04_tcp\x02db\x04shop\x03svc\x07cluster\x05local\x00\x00\x21\x00\x01\
      \x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00",
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x011\x013\x03244\x0210\x07in-addr\x04arpa\x00\x00\x0c\x00\x01",
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0d10-244-6-1-\x00\x00\x04shop\x03pod\x07cluster\x05local\x00\x00\x01\x00\x01",
    b"\x12\x34\x81\x80\x00\x01\x00\x02\x00\x01\x00\x00\x03www\x00\x00\x01\x00\x01\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x01\x00\x02\xc0\x0c\
      \xc0\x0c\x00\x0f\x00\x01\x00\x00\x00\x01\x00\x04\x00\x01\xc0\x0c\xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x01\x00\x18\xc0\x0c\xc0\x0c\
      \x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01",
    b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01",
    b"\x12\x34\x01\x00\x00\x01\xff\xff\xff\xff\xff\xff\x00\x00\x10\x00\x01",
];

/// A random generator with a fixed seed.
struct Random(u64);

impl Random {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides.max(1)
    }

    fn byte(&mut self) -> u8 {
        const LIKELY: &[u8] = &[0, 1, 2, 3, 12, 33, 41, 63, 64, 0x80, 0xbf, 0xc0, 0xff, b'a', b'-', b'_', b'.'];
        if self.roll(2) == 0 { LIKELY[self.roll(LIKELY.len())] } else { self.roll(256) as u8 }
    }
}

/// A message of the corpus, changed in some places; sometimes two of them joined, sometimes random bytes.
fn message(random: &mut Random, into: &mut Vec<u8>) {
    into.clear();
    if random.roll(16) == 0 {
        (0..random.roll(600)).for_each(|_| into.push(random.byte()));
        return;
    }
    into.extend_from_slice(CORPUS[random.roll(CORPUS.len())]);
    for _ in 0..random.roll(6) {
        let place = random.roll(into.len());
        match random.roll(5) {
            0 if place < into.len() => into[place] = random.byte(),
            1 => into.insert(place, random.byte()),
            2 if place < into.len() => drop(into.remove(place)),
            3 => into.truncate(place.max(1)),
            _ => {
                let other = CORPUS[random.roll(CORPUS.len())];
                into.extend_from_slice(&other[random.roll(other.len())..]);
            }
        }
    }
}

/// One message through the parser and the answer builder. The output must be a valid response.
fn attempt(zone: &Zone, message: &[u8], random: &mut Random, out: &mut Vec<u8>) -> bool {
    _ = Reply::parse(message, 0x1234, message.get(HEADER..HEADER + 9 + random.roll(40)).unwrap_or_default());
    let Ok(query) = Query::parse(message) else { return false };
    let limit = query.limit(512 + random.roll(2048));
    let mut builder = Builder::new(&query, limit, out);
    answer(zone, &query.name, query.kind, random.roll(1000) as u32, &mut builder);
    builder.finish();
    assert!(out.len() <= limit, "{} octets for {message:?}", out.len());
    let reply = Reply::parse(out, query.id, query.question());
    assert!(reply.is_ok(), "{reply:?} for {message:?}: {out:?}");
    true
}

/// `make fuzz` goes on from here, guided by coverage.
#[test]
fn generated_messages_do_no_harm() {
    let inputs = 20_000;
    let zone = zone_with(ZoneConfig { pods: Pods::Insecure, ..config() });
    let (mut random, mut input, mut out, mut questions) = (Random(0x9e37_79b9_7f4a_7c15), Vec::new(), Vec::new(), 0u64);
    for _ in 0..inputs {
        message(&mut random, &mut input);
        questions += u64::from(attempt(&zone, &input, &mut random, &mut out));
    }
    assert!(questions > inputs / 20, "only {questions} of {inputs} were questions");
}

#[test]
fn every_message_of_the_corpus_and_every_part_of_one_is_harmless() {
    let zone = zone_with(config());
    let long = question(&[&[63u8][..], &[b'x'; 63]].concat().repeat(3).into_iter().chain([0]).collect::<Vec<u8>>(), 16);
    for message in CORPUS.iter().copied().chain([&long[..]]) {
        for length in 0..=message.len() {
            attempt(&zone, &message[..length], &mut Random(1), &mut Vec::new());
        }
    }
}
