//! Measures one kind of query with one program.

use std::fmt;
use std::time::Duration;

use portolan_testkit::cluster::Program;
use rustix::param::clock_ticks_per_second;
use serde_json::json;

use crate::load::{self, Question, Seen};
use crate::stage::Stage;

const WARM_UP: Duration = Duration::from_secs(2);
const TIME: Duration = Duration::from_secs(8);
/// New Services, one after the other.
const NEW: u32 = 20;

pub(crate) struct Figures {
    seen: Seen,
    cpu: f64,
    resident: u64,
}

pub(crate) fn run(stage: &Stage, running: &Program, question: Question) -> Figures {
    stage.node().run(|| load::query(question, WARM_UP));
    let before = cpu_seconds(running.id());
    let seen = stage.node().run(|| load::query(question, TIME));
    Figures { seen, cpu: cpu_seconds(running.id()) - before, resident: resident(running.id()) }
}

/// Time from the API server's response for a new Service until its name is answered: median and maximum.
pub(crate) fn news(stage: &Stage) -> String {
    let mut times: Vec<Duration> = (0..NEW).map(|number| new_service(stage, number)).collect();
    times.sort_unstable();
    format!("{:.1} ms, at most {:.1} ms", milliseconds(times[times.len() / 2]), milliseconds(times[times.len() - 1]))
}

fn new_service(stage: &Stage, number: u32) -> Duration {
    let name = format!("new{number}");
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80}]},
    });
    stage.client().create(&service).expect("the Service is accepted");
    let time = stage.node().run(|| load::until_answered(&format!("{name}.default.svc.cluster.local")));
    stage.client().delete(&portolan_testkit::cluster::path_of(&service)).expect("the Service can be deleted");
    time
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn cpu_seconds(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("the process runs");
    let words: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = words[11..13].iter().filter_map(|word| word.parse::<u64>().ok()).sum();
    ticks as f64 / clock_ticks_per_second() as f64
}

fn resident(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1000
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { answers, time, latencies, lost } = &self.seen;
        let at = |part: f64| {
            let index = (latencies.len() as f64 * part) as usize;
            f64::from(latencies.get(index).copied().unwrap_or(0)) / 1000.0
        };
        write!(
            formatter,
            "{:.0} | {:.0} | {:.0} µs | {:.0} µs | {} MB",
            *answers as f64 / time.as_secs_f64(),
            *answers as f64 / self.cpu,
            at(0.5),
            at(0.99),
            self.resident,
        )?;
        if *lost > 0 { write!(formatter, " ({lost} lost)") } else { Ok(()) }
    }
}
