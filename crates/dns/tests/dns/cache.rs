//! What the cache keeps, and for how long.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dns::wire::{Name, Rcode, Record, Reply, kind};
use portolan_dns::{Cache, CacheConfig, Key};

const SOA: &[u8] = b"\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x3c";

fn key(name: &str) -> Key {
    let name = Name::from_text(name).expect("a name");
    Key { name, kind: kind::A, wants_dnssec: false, unchecked: false }
}

fn record(kind: u16, ttl: u32, data: &[u8]) -> Record {
    Record { owner: [0].into(), kind, class: 1, ttl, data: data.into() }
}

fn positive(records: u8, ttl: u32) -> Arc<Reply> {
    let answers = (0..records).map(|octet| record(kind::A, ttl, &[192, 0, 2, octet])).collect();
    Arc::new(Reply { answers, ..Reply::default() })
}

fn negative(rcode: Rcode) -> Arc<Reply> {
    Arc::new(Reply { rcode: rcode.0, authorities: vec![record(kind::SOA, 60, SOA)], ..Reply::default() })
}

#[test]
fn the_number_of_entries_is_bounded() {
    let cache = Cache::new(CacheConfig { capacity: 320, ..CacheConfig::default() });
    let now = Instant::now();
    for number in 0..10_000 {
        let key = key(&format!("{number}.example"));
        cache.put(key, &positive(1, 60), now);
        cache.put(key, &positive(1, 60), now);
        assert!(cache.get(&key, now).is_some());
        assert!(cache.get(&key, now + Duration::from_secs(61)).is_none());
        assert!(cache.stale(&key, now + Duration::from_secs(61)).is_some());
    }
    assert!(cache.sizes().entries[0] <= 320, "{:?}", cache.sizes());
}

#[test]
fn the_memory_is_bounded_and_counted() {
    let cache = Cache::new(CacheConfig { max_octets: 1 << 20, ..CacheConfig::default() });
    let now = Instant::now();
    for number in 0..3000 {
        cache.put(key(&format!("{number}.example")), &positive(60, 60), now);
        cache.put(key(&format!("{number}.missing")), &negative(Rcode::NX_DOMAIN), now);
    }
    let sizes = cache.sizes();
    assert!(sizes.octets[0] <= 3 << 18 && sizes.octets[1] <= 1 << 18, "{sizes:?}");
    assert!(sizes.octets[0] > 1 << 18 && sizes.entries[0] > 50, "the room is used: {sizes:?}");
    assert!(sizes.evicted[0] > 2000, "{sizes:?}");
    let huge = Arc::new(Reply { answers: vec![record(kind::TXT, 60, &[0; 60_000])], ..Reply::default() });
    cache.put(key("huge.example"), &huge, now);
    assert!(cache.get(&key("huge.example"), now).is_none(), "one answer does not take the room of a thousand");
}

#[test]
fn negative_answers_do_not_evict_positive_ones() {
    let cache = Cache::new(CacheConfig { capacity: 160, negative_capacity: 32, ..CacheConfig::default() });
    let now = Instant::now();
    cache.put(key("www.example"), &positive(1, 60), now);
    for number in 0..1000 {
        cache.put(key(&format!("{number}.example")), &negative(Rcode::NX_DOMAIN), now);
    }
    assert!(cache.get(&key("www.example"), now).is_some());
    assert_eq!(cache.sizes().entries, [1, 32]);
}

#[test]
fn random_names_do_not_evict_what_is_asked_often() {
    let cache = Cache::new(CacheConfig { capacity: 1600, ..CacheConfig::default() });
    let now = Instant::now();
    let often: Vec<Key> = (0..400).map(|number| key(&format!("www{number}.example"))).collect();
    for key in &often {
        cache.put(*key, &positive(1, 60), now);
        assert!(cache.get(key, now).is_some());
    }
    for number in 0..20_000usize {
        cache.put(key(&format!("{number}.flood.example")), &positive(1, 60), now);
        assert!(cache.get(&often[number % 400], now).is_some(), "after {number} random names");
    }
}

#[test]
fn a_failure_does_not_replace_an_answer() {
    let cache = Cache::new(CacheConfig::default());
    let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(100));
    for (name, answer) in [("www.example", positive(1, 60)), ("missing.example", negative(Rcode::NX_DOMAIN))] {
        let key = key(name);
        cache.put(key, &answer, start);
        assert!(cache.get(&key, later).is_none());
        cache.put(key, &Arc::new(Reply { rcode: Rcode::SERVER_FAILURE.0, ..Reply::default() }), later);
        let hit = cache.stale(&key, later).unwrap();
        assert_eq!((hit.reply.rcode(), hit.is_stale), (answer.rcode(), true), "{name}");
    }
    let hit = cache.get(&key("www.example"), later).unwrap();
    assert!(hit.is_stale, "the upstream is not queried again while its failure is cached");
    cache.put(key("www.example"), &negative(Rcode::NX_DOMAIN), later);
    assert_eq!(cache.get(&key("www.example"), later).unwrap().reply.rcode(), Rcode::NX_DOMAIN);
    assert_eq!(cache.stale(&key("www.example"), later).unwrap().reply.rcode(), Rcode::NX_DOMAIN);
}

#[test]
fn ttls_are_capped_for_clients_too() {
    let cache = Cache::new(CacheConfig { max_ttl: Duration::from_secs(30), ..CacheConfig::default() });
    let mut reply = Reply::clone(&positive(2, 86_400));
    cache.cap_ttls(&mut reply);
    assert!(reply.answers.iter().all(|record| record.ttl == 30));
}
