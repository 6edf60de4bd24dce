//! Watching for changes of manifest files: their stamps are compared twice a second, which also sees changes on shares and
//! through links, where Windows sends no notifications.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::files::{self, Place, Stamp};

const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Watches the files of some paths.
#[derive(Debug)]
pub struct Watcher {
    paths: Vec<PathBuf>,
    seen: Vec<(Place, Option<Stamp>)>,
}

impl Watcher {
    /// Starts watching. Must come before the first reload, so that no change falls between the two.
    pub fn new(paths: &[PathBuf]) -> Result<Self, Error> {
        let paths: Vec<_> =
            paths.iter().map(|path| std::path::absolute(path).unwrap_or_else(|_| path.clone())).collect();
        let seen = look(&paths);
        Ok(Self { paths, seen })
    }

    /// Waits until files may have changed. Returns false after the timeout.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, Error> {
        let start = Instant::now();
        loop {
            let now = look(&self.paths);
            if now != self.seen {
                self.seen = now;
                return Ok(true);
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(start.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            thread::sleep(left.map_or(LOOK_EVERY, |left| left.min(LOOK_EVERY)));
        }
    }
}

fn look(paths: &[PathBuf]) -> Vec<(Place, Option<Stamp>)> {
    files::list(paths).files.into_iter().map(|(place, stamp)| (place, stamp.ok())).collect()
}
