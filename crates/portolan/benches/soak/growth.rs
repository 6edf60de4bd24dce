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
    /// By least squares; `None` in a run that is too short for it.
    pub(crate) fn of(samples: &[Sample], elapsed: Duration, quantity: fn(&Sample) -> f64) -> Option<Self> {
        let settled: Vec<&Sample> = samples.iter().filter(|it| it.at >= elapsed * 2 / 3).collect();
        let mean = |of: &dyn Fn(&Sample) -> f64| settled.iter().map(|it| of(it)).sum::<f64>() / settled.len() as f64;
        let hours = |it: &Sample| it.at.as_secs_f64() / 3600.0;
        let (time, value) = (mean(&hours), mean(&quantity));
        let covariance = mean(&|it| (hours(it) - time) * (quantity(it) - value));
        let variance = mean(&|it| (hours(it) - time).powi(2));
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
    for time in samples.chunk_by(|one, next| next.at - one.at < WARM) {
        let of = |quantity: fn(&Sample) -> f64| median(time.iter().map(quantity).collect());
        let (heap, own) = (of(|it| it.heap_kilobytes) / 1000.0, of(|it| it.own_kilobytes) / 1000.0);
        let (minute, descriptors) = (of(|it| it.at.as_secs_f64()) / 60.0, of(|it| it.descriptors));
        println!("| {minute:.0} | {heap:.2} MB | {own:.2} MB | {descriptors:.0} |");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
