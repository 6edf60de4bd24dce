//! Resource usage of the process.

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: f64,
    pub(crate) virtual_bytes: f64,
    pub(crate) open_files: f64,
    pub(crate) max_files: f64,
    pub(crate) start_seconds: f64,
}
