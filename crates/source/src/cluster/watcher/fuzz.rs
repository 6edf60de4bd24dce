//! A watch that is fed with bytes, for the fuzz targets.

use std::time::Duration;

use super::follow::Watcher;
use super::stream::Progress;
use crate::cluster::facts::Listing;
use crate::cluster::wire::{Encoding, Frames};

impl Watcher {
    /// The chunks of a response body, in a watch with initial events.
    pub(in crate::cluster) fn feed(&mut self, encoding: Encoding, chunks: [&[u8]; 2]) {
        let started = tokio::time::Instant::now();
        let timeout = Duration::from_secs(300);
        let mut progress = Progress { encoding, started, timeout, has_bookmarks: false, has_events: false };
        let mut frames = Frames::new(encoding);
        self.listing = Some(Listing::default());
        for chunk in chunks {
            frames.push(chunk);
            if self.take_batch(&mut frames, &mut progress).is_err() {
                return;
            }
        }
        frames.is_torn();
    }
}
