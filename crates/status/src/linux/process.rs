//! Resource usage of the process, from `/proc`.

use std::fs;

use anyhow::Context;

use crate::metrics::process::Process;

/// USER_HZ: Linux reports CPU time in hundredths of a second, on every supported architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// Fields of `/proc/PID/stat`, counted from the state, which is the first field after the name in parentheses.
const USER_TICKS: usize = 11;
const SYSTEM_TICKS: usize = 12;
const START_TICKS: usize = 19;

impl Process {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let (stat, status) = (read("/proc/self/stat")?, read("/proc/self/status")?);
        let ticks = |field| stat_field(&stat, field).map(|ticks| ticks / TICKS_PER_SECOND);
        let boot = after(&read("/proc/stat")?, "btime ")?;
        Ok(Self {
            cpu_seconds: ticks(USER_TICKS)? + ticks(SYSTEM_TICKS)?,
            resident_bytes: after(&status, "VmRSS:")? * 1024.0,
            virtual_bytes: after(&status, "VmSize:")? * 1024.0,
            // One of them is the directory that is being read.
            open_files: fs::read_dir("/proc/self/fd").context("reading /proc/self/fd")?.count() as f64 - 1.0,
            max_files: after(&read("/proc/self/limits")?, "Max open files")?,
            start_seconds: boot + ticks(START_TICKS)?,
        })
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {path}"))
}

/// The name of the process may contain spaces and parentheses: fields start after the last parenthesis.
fn stat_field(stat: &str, field: usize) -> anyhow::Result<f64> {
    let fields = stat.rsplit(") ").next().unwrap_or(stat);
    let text = fields.split_whitespace().nth(field);
    text.and_then(|text| text.parse().ok()).with_context(|| format!("field {field} of /proc/self/stat"))
}

/// The number after a heading at the start of a line.
fn after(text: &str, heading: &str) -> anyhow::Result<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(heading));
    let number = rest.and_then(|rest| rest.split_whitespace().next());
    match number {
        Some("unlimited") => Ok(f64::INFINITY),
        number => number.and_then(|text| text.parse().ok()).with_context(|| format!("no number after {heading:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_plausible() {
        let process = Process::read().unwrap();
        assert!(process.resident_bytes > 100_000.0 && process.virtual_bytes >= process.resident_bytes, "{process:?}");
        assert!(process.open_files >= 3.0 && process.max_files >= process.open_files, "{process:?}");
        assert!(process.start_seconds > 1_600_000_000.0, "{process:?}");
    }

    #[test]
    fn what_is_allocated_counts_until_it_is_freed() {
        const SIZE: u64 = 64 << 20;
        let heap = || portolan_kernel::heap_bytes().unwrap();
        let before = heap();
        let block = vec![1_u8; SIZE as usize];
        let during = heap();
        drop(block);
        // Other tests allocate meanwhile.
        assert!(during >= before + SIZE / 2 && heap() <= during - SIZE / 2, "{before} {during}");
    }

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0";
        assert_eq!(stat_field(stat, USER_TICKS).unwrap(), 250.0);
        assert!(stat_field(stat, START_TICKS).is_err());
    }
}
