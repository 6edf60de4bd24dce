//! Windows has no bind mounts.

use std::io::Result;
use std::path::Path;

pub fn bind_mount(_content: &Path, _shown_at: &Path) -> Result<()> {
    Err(super::only_linux())
}
