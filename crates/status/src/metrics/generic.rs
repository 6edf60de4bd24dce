//! The metrics of every Kubernetes component: version, API requests, process.

use super::descriptor::{Descriptor, Kind};
use super::process::Process;
use super::registry::{Metric, Registry};

#[derive(Debug)]
pub(crate) struct GenericMetrics {
    pub(crate) build: Metric,
    pub(crate) feature: Metric,
    pub(crate) api_requests: Metric,
    cpu: Metric,
    resident: Metric,
    virtual_size: Metric,
    open_files: Metric,
    max_files: Metric,
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
                "The Kubernetes version of the kube-proxy that this replaces; always 1.",
            ),
            feature: add(
                "kubernetes_feature_enabled",
                Kind::Gauge,
                &["name", "stage"],
                "1 if a feature gate is enabled, else 0.",
            ),
            api_requests: add(
                "rest_client_requests_total",
                Kind::Counter,
                &["code", "host", "method"],
                "Requests to the API server by HTTP status and method.",
            ),
            cpu: add("process_cpu_seconds_total", Kind::Counter, &[], "CPU time of the process, in seconds."),
            resident: add("process_resident_memory_bytes", Kind::Gauge, &[], "Resident memory of the process."),
            virtual_size: add("process_virtual_memory_bytes", Kind::Gauge, &[], "Virtual memory of the process."),
            open_files: add("process_open_fds", Kind::Gauge, &[], "Open file descriptors."),
            max_files: add("process_max_fds", Kind::Gauge, &[], "Limit of open file descriptors."),
            start: add(
                "process_start_time_seconds",
                Kind::Gauge,
                &[],
                "Start time of the process, in seconds since 1970.",
            ),
        }
    }

    pub(crate) fn set_process(&self, process: &Process) {
        self.cpu.set(&[], process.cpu_seconds);
        self.resident.set(&[], process.resident_bytes);
        self.virtual_size.set(&[], process.virtual_bytes);
        self.open_files.set(&[], process.open_files);
        self.max_files.set(&[], process.max_files);
        self.start.set(&[], process.start_seconds);
    }
}
