//! Memory and descriptors of the daemon over time.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;

/// A start and a change of the mode leave work behind; a sample counts after that.
const WARM: Duration = Duration::from_secs(30);
/// As often as Prometheus would read them, or a little more.
const BETWEEN: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Resources(Mutex<Vec<Sample>>);

#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Since the beginning.
    at: Duration,
    /// Allocated and not freed.
    pub(crate) heap_kilobytes: f64,
    pub(crate) resident_kilobytes: f64,
    /// Without the pages of the program file, which the kernel keeps and drops as it likes.
    pub(crate) own_kilobytes: f64,
    pub(crate) descriptors: f64,
}

impl Resources {
    pub(crate) fn watch(&self, cluster: &Cluster, is_over: &AtomicBool) {
        let begin = Instant::now();
        while !is_over.load(Ordering::Relaxed) {
            let sample = cluster.daemon.process(WARM).and_then(|process| sample(cluster, process, begin.elapsed()));
            self.0.lock().expect("no thread panics with it").extend(sample);
            std::thread::sleep(BETWEEN);
        }
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.0.lock().expect("no thread panics with it").clone()
    }
}

fn sample(cluster: &Cluster, process: u32, at: Duration) -> Option<Sample> {
    let heap_kilobytes = heap_kilobytes(&cluster.daemon.metrics().ok()?)?;
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as f64;
    let (resident_kilobytes, own_kilobytes) = (kilobytes(&status, "VmRSS:")?, kilobytes(&status, "RssAnon:")?);
    Some(Sample { at, heap_kilobytes, resident_kilobytes, own_kilobytes, descriptors })
}

fn heap_kilobytes(metrics: &str) -> Option<f64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix("portolan_heap_bytes "))?;
    line.parse::<f64>().ok().map(|bytes| bytes / 1000.0)
}

fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Those of the last third of the time. The daemon has not been restarted since the first third, so that what it keeps has
/// reached its limits, such as the last 1,000 changes.
pub(crate) fn settled(samples: &[Sample], elapsed: Duration) -> Vec<Sample> {
    samples.iter().filter(|it| it.at >= elapsed * 2 / 3).copied().collect()
}

/// By least squares: how much a quantity grows in an hour; `None` without samples over some time.
pub(crate) fn slope_per_hour(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Option<f64> {
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
    let hours = |it: &Sample| it.at.as_secs_f64() / 3600.0;
    let (time, value) = (mean(&hours), mean(&|it| of(it)));
    let covariance: f64 = samples.iter().map(|it| (hours(it) - time) * (of(it) - value)).sum();
    let variance: f64 = samples.iter().map(|it| (hours(it) - time).powi(2)).sum();
    (variance > 0.0).then(|| covariance / variance)
}
