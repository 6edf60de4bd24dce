//! Memory and descriptors of the daemon over time.

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;

/// A start and a change of the mode leave work behind, and traffic is counted anew: each Service gets a connection every 10 to 12
/// seconds, and after 13 of them 98 of 100 have reached their three endpoints. A sample counts after that.
pub(crate) const WARM: Duration = Duration::from_secs(150);
/// As often as Prometheus would read them, or a little more.
const BETWEEN: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Resources(Mutex<Vec<Sample>>);

#[derive(Clone, Copy)]
pub(crate) struct Sample {
    /// Since the beginning.
    pub(crate) at: Duration,
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

/// The "kB" of the kernel have 1,024 bytes.
fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse::<f64>().ok().map(|number| number * 1.024)
}
