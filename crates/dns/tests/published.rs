//! Every interleaving of threads that publish and read, and every order of memory accesses that the processor allows. A
//! separate program, because it compiles `published.rs` with the primitives of loom.

#[path = "../src/published.rs"]
#[expect(unreachable_pub, reason = "the model uses a part of it")]
mod published;

/// In place of `src/sync.rs`.
mod sync {
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::AtomicU64;
}

/// Its number tells which one it is.
mod zone {
    #[derive(Debug)]
    pub(crate) struct Zone(pub(crate) u64);
}

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use published::{Published, Reader};
use zone::Zone;

/// The number of the zone that a query is answered from; 0 for none.
fn answer(reader: &mut Reader) -> u64 {
    reader.value().map_or(0, |zone| zone.0)
}

#[test]
fn after_a_publication_no_answer_is_older() {
    loom::model(|| {
        let published = Arc::new(Published::default());
        // The last zone whose publication has returned.
        let completed = Arc::new(AtomicU64::new(0));
        let publisher = {
            let (published, completed) = (published.clone(), completed.clone());
            thread::spawn(move || {
                for number in 1..=2 {
                    published.publish(Arc::new(Zone(number)));
                    completed.store(number, Ordering::Release);
                }
            })
        };
        let mut reader = Reader::new(published);
        let mut last = 0;
        for _ in 0..2 {
            let least = completed.load(Ordering::Acquire);
            let answered = answer(&mut reader);
            assert!(answered >= least, "zone {answered} after zone {least} was published");
            assert!(answered >= last, "zone {answered} after an answer from zone {last}");
            last = answered;
        }
        publisher.join().expect("it does not panic");
        assert_eq!(answer(&mut reader), 2);
    });
}

/// Of two publishers at the same time, all readers end up with the same zone.
#[test]
fn readers_agree_in_the_end() {
    loom::model(|| {
        let published = Arc::new(Published::default());
        let mut reader = Reader::new(published.clone());
        let publishers = [1, 2].map(|number| {
            let published = published.clone();
            thread::spawn(move || published.publish(Arc::new(Zone(number))))
        });
        answer(&mut reader);
        for publisher in publishers {
            publisher.join().expect("it does not panic");
        }
        let current = published.current().expect("two were published").0;
        assert_eq!((answer(&mut reader), answer(&mut Reader::new(published))), (current, current));
    });
}
