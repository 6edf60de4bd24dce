//! The clock as an argument, so that tests can set it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

/// A moment on both clocks: wall time, which may be adjusted, and monotonic time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub wall: Timestamp,
    pub since_start: Duration,
}

impl Moment {
    pub(crate) fn wall_seconds(&self) -> f64 {
        self.wall.as_duration().as_secs_f64()
    }
}

#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The clocks of the machine.
    pub fn real() -> Self {
        let start = Instant::now();
        Self::new(move || Moment { wall: Timestamp::now(), since_start: start.elapsed() })
    }

    pub fn now(&self) -> Moment {
        (self.0)()
    }
}
