//! Resource usage of the process.

use portolan_kernel::usage::Usage;

use crate::metrics::process::Process;

impl Process {
    /// Windows counts handles, and limits them by memory alone.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let Usage { processor, resident_bytes, virtual_bytes, handles, started } = Usage::read()?;
        Ok(Self {
            cpu_seconds: processor.as_secs_f64(),
            resident_bytes: resident_bytes as f64,
            virtual_bytes: virtual_bytes as f64,
            open_files: f64::from(handles),
            max_files: f64::INFINITY,
            start_seconds: started.as_secs_f64(),
        })
    }
}
