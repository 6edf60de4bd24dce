//! Whether memory and descriptors are flat.

use std::time::Duration;

use crate::resources::{Sample, WARM};

/// The growth of a quantity in the last third of the time. The daemon has not been restarted since the first third, so that what
/// it keeps has reached its limits, such as the last 1,000 changes.
pub(crate) struct Growth {
    per_hour: f64,
    /// How much more there is at the end of the third than at its beginning, as a share.
    share: f64,
}

impl Growth {
    /// By least squares over the medians of each time in the first mode, so that what a single sample finds allocated for a moment
    /// does not count. `None` in a run that is too short for it.
    pub(crate) fn of(samples: &[Sample], elapsed: Duration, quantity: fn(&Sample) -> f64) -> Option<Self> {
        let settled: Vec<Sample> = samples.iter().filter(|it| it.at >= elapsed * 2 / 3).copied().collect();
        let points: Vec<(f64, f64)> =
            times(&settled).map(|time| (median(time, hours), median(time, quantity))).collect();
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        let (hour, value) = (mean(&|it| it.0), mean(&|it| it.1));
        let covariance = mean(&|it| (it.0 - hour) * (it.1 - value));
        let variance = mean(&|it| (it.0 - hour).powi(2));
        let per_hour = covariance / variance;
        let share = per_hour * (elapsed / 3).as_secs_f64() / 3600.0 / value;
        (variance > 0.0).then_some(Self { per_hour, share })
    }

    pub(crate) fn exceeds(&self, share: f64) -> bool {
        self.share > share
    }
}

pub(crate) fn text(growth: Option<&Growth>, unit: &str) -> String {
    let text = |it: &Growth| format!("{:+.1}{unit} an hour, {:+.1} %", it.per_hour, 100.0 * it.share);
    growth.map_or("unknown".to_owned(), text)
}

/// The median of each time in the first mode, a row each.
pub(crate) fn print_medians(samples: &[Sample]) {
    println!("\n| minute | memory allocated | without the program file | descriptors |\n| ---: | ---: | ---: | ---: |");
    for time in times(samples) {
        let (minute, descriptors) = (60.0 * median(time, hours), median(time, |it| it.descriptors));
        let megabytes = |quantity: fn(&Sample) -> f64| median(time, quantity) / 1000.0;
        let (heap, own) = (megabytes(|it| it.heap_kilobytes), megabytes(|it| it.own_kilobytes));
        println!("| {minute:.0} | {heap:.2} MB | {own:.2} MB | {descriptors:.0} |");
    }
}

/// The samples of each time in the first mode.
fn times(samples: &[Sample]) -> impl Iterator<Item = &[Sample]> {
    samples.chunk_by(|one, next| next.at - one.at < WARM)
}

fn hours(sample: &Sample) -> f64 {
    sample.at.as_secs_f64() / 3600.0
}

fn median(samples: &[Sample], quantity: fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(quantity).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
