//! A comparison for people and for programs.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use serde::Serialize;

use crate::compare::{Comparison, Difference};

/// What is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub kube_proxy_mode: &'static str,
    /// How many packets were tried.
    pub questions: usize,
    pub unexpected: Vec<Line>,
    /// Each reason with how many probes it explains.
    pub expected: BTreeMap<&'static str, usize>,
    pub not_understood: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Line {
    pub service: String,
    pub from: String,
    pub source: String,
    pub destination: String,
    pub what: String,
    pub portolan: String,
    pub kube_proxy: String,
}

impl From<&Comparison> for Report {
    fn from(comparison: &Comparison) -> Self {
        let mut expected = BTreeMap::new();
        for reason in comparison.differences.iter().filter_map(|difference| difference.expected) {
            *expected.entry(reason).or_default() += 1;
        }
        Self {
            kube_proxy_mode: comparison.mode,
            questions: comparison.probes,
            unexpected: comparison.unexpected().map(Line::from).collect(),
            expected,
            not_understood: comparison.unknown.clone(),
        }
    }
}

impl From<&Difference> for Line {
    fn from(difference: &Difference) -> Self {
        let packet = &difference.packet;
        Self {
            service: difference.service.clone(),
            from: difference.client.to_string(),
            source: packet.source.to_string(),
            destination: format!("{}/{}", SocketAddr::new(packet.destination, packet.port), packet.protocol),
            what: difference.what.clone(),
            portolan: difference.portolan.to_string(),
            kube_proxy: difference.kube_proxy.to_string(),
        }
    }
}

impl Report {
    /// The first of all lines with the same difference of one Service, and how many there are.
    fn kinds(&self) -> Vec<(&Line, usize)> {
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for line in &self.unexpected {
            *counts.entry((&line.service, &line.what)).or_default() += 1;
        }
        let mut kinds = Vec::new();
        for line in &self.unexpected {
            let count = counts.remove(&(line.service.as_str(), line.what.as_str()));
            kinds.extend(count.map(|count| (line, count)));
        }
        kinds
    }

    pub fn agrees(&self) -> bool {
        self.unexpected.is_empty() && self.not_understood.is_empty()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, from, source, destination, what, portolan, kube_proxy } = self;
        let service = if service.is_empty() { "(unknown Service)" } else { service };
        writeln!(formatter, "{service}: {from} ({source}) -> {destination}: {what}")?;
        writeln!(formatter, "    Portolan    {portolan}")?;
        write!(formatter, "    kube-proxy  {kube_proxy}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (line, count) in self.kinds() {
            writeln!(formatter, "{line}")?;
            if count > 1 {
                writeln!(formatter, "    and {} more probes of this Service differ in the same way", count - 1)?;
            }
        }
        for what in &self.not_understood {
            writeln!(formatter, "not understood: {what}")?;
        }
        for (reason, count) in &self.expected {
            writeln!(formatter, "expected, {count} times: {reason}")?;
        }
        let (mode, probes) = (self.kube_proxy_mode, self.questions);
        let count = self.unexpected.len();
        writeln!(formatter, "kube-proxy ({mode} mode): {probes} probes, {count} unexpected differences")
    }
}
