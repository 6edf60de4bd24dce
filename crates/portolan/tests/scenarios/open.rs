//! Connections of a scenario that stay open from one step to the next, and the thread that resets some.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portolan_dataplane::connections::ConnectionWorker;
use portolan_dataplane::{Listeners, SyncReport};
use portolan_plan::Plan;
use portolan_testkit::{Lab, LongConnection, OpenFate, OpenLine, Protocol, Scenario, topology};

/// Far longer than a reset takes.
const SOON: Duration = Duration::from_secs(20);

pub(crate) struct OpenConnections {
    /// Only in scenarios with such connections.
    worker: Option<ConnectionWorker>,
    open: Vec<(OpenLine, LongConnection)>,
}

impl OpenConnections {
    pub(crate) fn new(lab: &Lab, scenario: &Scenario) -> Result<Self, String> {
        let is_wanted = scenario.steps.iter().any(|step| !step.open.is_empty());
        let start = || ConnectionWorker::start(Box::new(|_, _| {}));
        let worker = is_wanted.then(|| lab.host(topology::NODE).run(start)).transpose();
        Ok(Self { worker: worker.map_err(|error| error.to_string())?, open: Vec::new() })
    }

    /// The plan is programmed.
    pub(crate) fn follow(&self, report: &SyncReport, plan: &Plan, listeners: Option<Arc<Listeners>>) {
        if let Some(worker) = &self.worker {
            worker.follow(report, plan, listeners, &[]);
        }
    }

    pub(crate) fn check(&mut self, lab: &Lab, lines: &[OpenLine]) -> Result<(), String> {
        lines.iter().try_for_each(|line| {
            let outcome = match line.fate {
                OpenFate::Opened => self.open(lab, line),
                OpenFate::Reset => self.expect_resets(line),
                OpenFate::Kept => self.expect_kept(line),
            };
            outcome.map_err(|error| format!("line {}: {error}", line.line_number))
        })
    }

    fn open(&mut self, lab: &Lab, line: &OpenLine) -> Result<(), String> {
        lab.serve(line.endpoint, Protocol::Tcp).map_err(|error| error.to_string())?;
        for _ in 0..line.count {
            let opened = lab.open_connection(&line.source, line.frontend, Protocol::Tcp, SOON);
            let connection = opened.map_err(|error| error.to_string())?;
            let endpoint = connection.answer().endpoint;
            if endpoint != line.endpoint {
                return Err(format!("the connection went to {endpoint}"));
            }
            self.open.push((line.clone(), connection));
        }
        Ok(())
    }

    fn expect_resets(&mut self, line: &OpenLine) -> Result<(), String> {
        let (begin, mut resets) = (Instant::now(), 0);
        while resets < line.count && begin.elapsed() < SOON {
            let before = self.open.len();
            let mut failure = None;
            self.open.retain(|(other, connection)| {
                let is_reset = other.is_about(line)
                    && connection.is_reset().unwrap_or_else(|error| {
                        failure = Some(error.to_string());
                        false
                    });
                !is_reset
            });
            failure.map_or(Ok(()), Err)?;
            resets += before - self.open.len();
            std::thread::park_timeout(Duration::from_millis(20));
        }
        if resets == line.count { Ok(()) } else { Err(format!("{resets} connections were reset")) }
    }

    fn expect_kept(&self, line: &OpenLine) -> Result<(), String> {
        let kept = self.open.iter().filter(|(other, _)| other.is_about(line));
        let works = |connection: &LongConnection| connection.exchange(b"hello").is_ok_and(|reply| reply == b"hello");
        let working = kept.filter(|(_, connection)| works(connection)).count();
        if working == line.count { Ok(()) } else { Err(format!("{working} connections are open")) }
    }
}
