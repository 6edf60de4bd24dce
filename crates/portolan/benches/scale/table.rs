//! Results as a table.

use std::time::Duration;

pub(crate) fn print(title: &str, heading: &[&str], rows: &[Vec<String>]) {
    println!("\n{title}");
    let heading: Vec<String> = heading.iter().map(ToString::to_string).collect();
    let widths: Vec<usize> = (0..heading.len())
        .map(|column| rows.iter().chain([&heading]).map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    for row in [&heading].into_iter().chain(rows) {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        println!("  {}", cells.join("   "));
    }
}

/// A value of a sorted list, by its share from below.
pub(crate) fn percentile(sorted: &[Duration], share: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

pub(crate) fn microseconds(duration: Duration) -> String {
    format!("{:.1} µs", duration.as_secs_f64() * 1e6)
}
