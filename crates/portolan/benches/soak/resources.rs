//! Memory and descriptors of the daemon over time.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;

/// A start leaves work behind; a sample counts after that.
const WARM: Duration = Duration::from_secs(30);
const BETWEEN: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Resources(Mutex<Vec<Sample>>);

#[derive(Clone, Copy)]
pub(crate) struct Sample {
    process: u32,
    minutes: f64,
    pub(crate) kilobytes: f64,
    pub(crate) descriptors: f64,
}

impl Resources {
    pub(crate) fn watch(&self, cluster: &Cluster, is_over: &AtomicBool) {
        let begin = Instant::now();
        while !is_over.load(Ordering::Relaxed) {
            let sample = cluster.daemon.process(WARM).and_then(|process| sample(process, begin.elapsed()));
            self.0.lock().expect("no thread panics with it").extend(sample);
            std::thread::sleep(BETWEEN);
        }
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.0.lock().expect("no thread panics with it").clone()
    }
}

fn sample(process: u32, elapsed: Duration) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes = line.trim().trim_end_matches(" kB").parse().ok()?;
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as f64;
    Some(Sample { process, minutes: elapsed.as_secs_f64() / 60.0, kilobytes, descriptors })
}

/// By least squares: how much a quantity of one process grows in an hour. Each process has its own beginning, so that restarts
/// neither hide a leak nor look like one.
pub(crate) fn slope_per_hour(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let (mut covariance, mut variance) = (0.0, 0.0);
    for process in samples.chunk_by(|one, next| one.process == next.process) {
        let mean = |of: &dyn Fn(&Sample) -> f64| process.iter().map(of).sum::<f64>() / process.len() as f64;
        let (time, value) = (mean(&|it| it.minutes), mean(&|it| of(it)));
        covariance += process.iter().map(|it| (it.minutes - time) * (of(it) - value)).sum::<f64>();
        variance += process.iter().map(|it| (it.minutes - time).powi(2)).sum::<f64>();
    }
    if variance == 0.0 { 0.0 } else { 60.0 * covariance / variance }
}
