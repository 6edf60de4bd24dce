//! The metrics that every component of Kubernetes has: what it is, what it asks the API server, what the process uses.

use super::process::Process;
use super::registry::{Descriptor, Kind, Metric, Registry};

#[derive(Debug)]
pub(crate) struct GenericMetrics {
    pub(crate) build: Metric,
    pub(crate) feature: Metric,
    pub(crate) api_requests: Metric,
    cpu: Metric,
    resident: Metric,
    virtual_size: Metric,
    open_files: Metric,
    most_files: Metric,
    start: Metric,
}

impl GenericMetrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let mut add = |name, kind, labels, help| registry.register(Descriptor { name, kind, labels, help });
        Self {
            build: add(
                "kubernetes_build_info",
                Kind::Gauge,
                &[
                    "build_date",
                    "compiler",
                    "git_commit",
                    "git_tree_state",
                    "git_version",
                    "go_version",
                    "major",
                    "minor",
                    "platform",
                ],
                "The version of Kubernetes whose kube-proxy this stands in for; always 1.",
            ),
            feature: add(
                "kubernetes_feature_enabled",
                Kind::Gauge,
                &["name", "stage"],
                "1 if a feature gate is on, 0 if it is off.",
            ),
            api_requests: add(
                "rest_client_requests_total",
                Kind::Counter,
                &["code", "host", "method"],
                "Requests to the API server by HTTP status and method.",
            ),
            cpu: add(
                "process_cpu_seconds_total",
                Kind::Counter,
                &[],
                "Processor time that the process has used, in seconds.",
            ),
            resident: add("process_resident_memory_bytes", Kind::Gauge, &[], "Memory of the process that is resident."),
            virtual_size: add("process_virtual_memory_bytes", Kind::Gauge, &[], "Address space of the process."),
            open_files: add("process_open_fds", Kind::Gauge, &[], "Files and sockets that the process holds open."),
            most_files: add("process_max_fds", Kind::Gauge, &[], "Files and sockets that the process may hold open."),
            start: add(
                "process_start_time_seconds",
                Kind::Gauge,
                &[],
                "When the process started, in seconds since 1970.",
            ),
        }
    }

    pub(crate) fn set_process(&self, process: &Process) {
        self.cpu.set(&[], process.cpu_seconds);
        self.resident.set(&[], process.resident_bytes);
        self.virtual_size.set(&[], process.virtual_bytes);
        self.open_files.set(&[], process.open_files);
        self.most_files.set(&[], process.most_files);
        self.start.set(&[], process.start_seconds);
    }
}
