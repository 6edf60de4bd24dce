//! Entries, one by one and in batches.

use portolan_kernel::bpf::map::kind;
use portolan_kernel::bpf::{Map, MapDefinition, possible_cpus};

fn map(name: &str, kind: u32, max_entries: u32) -> Map {
    Map::create(&MapDefinition { name: name.into(), kind, key_size: 8, value_size: 4, max_entries, flags: 1 }).unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

#[test]
fn an_entry_is_written_read_and_deleted() {
    let map = map("single", kind::HASH, 10);
    assert_eq!(map.lookup(&key(1)).unwrap(), None);
    map.update(&key(1), &[1, 2, 3, 4]).unwrap();
    map.update(&key(1), &[5, 6, 7, 8]).unwrap();
    assert_eq!(map.lookup(&key(1)).unwrap(), Some(vec![5, 6, 7, 8]));
    assert!(map.delete(&key(1)).unwrap());
    assert!(!map.delete(&key(1)).unwrap());
    let error = map.update(&[1], &[1, 2, 3, 4]).unwrap_err().to_string();
    assert!(error.contains("keys have 8 bytes"), "{error}");
}

#[test]
fn batches_write_read_and_delete_many_entries() {
    let map = map("many", kind::HASH, 100_000);
    let entries: Vec<([u8; 8], [u8; 4])> = (0..50_000u32).map(|it| (key(it.into()), it.to_le_bytes())).collect();
    map.update_batch(entries.iter().map(|(key, value)| (&key[..], &value[..]))).unwrap();
    let read = map.entries().unwrap();
    assert_eq!(read.len(), entries.len());
    let mut found: Vec<(&[u8], &[u8])> = read.iter().collect();
    found.sort_by_key(|(key, _)| u64::from_le_bytes((*key).try_into().unwrap()));
    assert!(found.iter().zip(&entries).all(|(one, other)| *one == (&other.0[..], &other.1[..])));
    assert!(map.memory().unwrap() > 1_000_000);

    // Each second key does not exist.
    let keys: Vec<[u8; 8]> = (0..20_000).map(|it| key(it * 2 + 49_000)).collect();
    assert_eq!(map.delete_batch(keys.iter().map(|key| &key[..])).unwrap(), 500);
    assert_eq!(map.entries().unwrap().len(), 49_500);
    map.update_batch([]).unwrap();
    assert_eq!(map.delete_batch([]).unwrap(), 0);
}

#[test]
fn an_empty_map_has_no_entries() {
    assert!(map("empty", kind::HASH, 10).entries().unwrap().is_empty());
}

#[test]
fn values_by_cpu_are_read_in_batches() {
    let map = map("by_cpu", kind::PERCPU_HASH, 100);
    assert_eq!(map.value_length(), 8 * possible_cpus().unwrap());
    let value = vec![1; map.value_length()];
    map.update(&key(1), &value).unwrap();
    map.update(&key(2), &value).unwrap();
    assert_eq!(map.entries().unwrap().len(), 2);
    assert_eq!(map.lookup(&key(1)).unwrap().unwrap().len(), map.value_length());
}

#[test]
fn a_full_map_is_an_error_that_names_it() {
    let map = map("full", kind::HASH, 2);
    let entries: Vec<[u8; 8]> = (0..3).map(key).collect();
    let error = map.update_batch(entries.iter().map(|key| (&key[..], &[0; 4][..]))).unwrap_err();
    assert_eq!(error.errno(), Some(libc::E2BIG));
    assert!(error.to_string().contains("BPF map full"), "{error}");
    assert_eq!(map.entries().unwrap().len(), 2);
}

#[test]
fn a_frozen_map_cannot_be_changed() {
    let map = Map::frozen("constants", b"content").unwrap();
    assert_eq!(map.lookup(&[0; 4]).unwrap().unwrap(), b"content");
    assert_eq!(map.update(&[0; 4], b"another").unwrap_err().errno(), Some(libc::EPERM));
}
