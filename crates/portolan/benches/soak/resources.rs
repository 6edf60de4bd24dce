//! Memory and descriptors of the daemon over time.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cluster::Cluster;

/// A change of the mode leaves work behind; a sample counts after that.
const IN_MODE: Duration = Duration::from_secs(30);
/// A daemon keeps its last changes, up to a limit that it reaches within this time. Until then its memory grows.
const WARM: Duration = Duration::from_secs(12 * 60);
const BETWEEN: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(crate) struct Resources(Mutex<Vec<Sample>>);

#[derive(Clone, Copy)]
pub(crate) struct Sample {
    process: u32,
    age: Duration,
    pub(crate) resident_kilobytes: f64,
    /// Without the pages of the program file, which the kernel keeps and drops as it likes.
    pub(crate) own_kilobytes: f64,
    pub(crate) descriptors: f64,
}

impl Resources {
    pub(crate) fn watch(&self, cluster: &Cluster, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            let sample = cluster.daemon.process(IN_MODE).and_then(|(process, age)| sample(process, age));
            self.0.lock().expect("no thread panics with it").extend(sample);
            std::thread::sleep(BETWEEN);
        }
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.0.lock().expect("no thread panics with it").clone()
    }
}

fn sample(process: u32, age: Duration) -> Option<Sample> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as f64;
    let (resident_kilobytes, own_kilobytes) = (kilobytes(&status, "VmRSS:")?, kilobytes(&status, "RssAnon:")?);
    Some(Sample { process, age, resident_kilobytes, own_kilobytes, descriptors })
}

fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Those of the last daemon, which was not restarted, from the time on at which it should not grow any more.
pub(crate) fn of_the_last(samples: &[Sample]) -> Vec<Sample> {
    let last = samples.last().map(|it| it.process);
    samples.iter().filter(|it| Some(it.process) == last && it.age >= WARM).copied().collect()
}

pub(crate) fn minutes_of(samples: &[Sample]) -> f64 {
    let minutes = |it: Option<&Sample>| it.map_or(0.0, |it| it.age.as_secs_f64() / 60.0);
    minutes(samples.last()) - minutes(samples.first())
}

/// By least squares: how much a quantity grows in an hour; `None` without samples over some time.
pub(crate) fn slope_per_hour(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> Option<f64> {
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / samples.len() as f64;
    let hours = |it: &Sample| it.age.as_secs_f64() / 3600.0;
    let (time, value) = (mean(&hours), mean(&|it| of(it)));
    let covariance: f64 = samples.iter().map(|it| (hours(it) - time) * (of(it) - value)).sum();
    let variance: f64 = samples.iter().map(|it| (hours(it) - time).powi(2)).sum();
    (variance > 0.0).then(|| covariance / variance)
}
