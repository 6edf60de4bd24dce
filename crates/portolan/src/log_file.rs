//! A log file of bounded size, for a process that has no console: a service of Windows.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file that would become larger than this is kept under another name, in place of the one before it.
const LARGEST: u64 = 10 << 20;

pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    size: u64,
    largest: u64,
}

impl LogFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Self::bounded(path, LARGEST)
    }

    fn bounded(path: &Path, largest: u64) -> io::Result<Self> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let size = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, size, largest })
    }

    pub(crate) fn write(&mut self, line: &str) -> io::Result<()> {
        if self.size > 0 && self.size + line.len() as u64 > self.largest {
            self.rotate()?;
        }
        self.size += line.len() as u64;
        self.file.write_all(line.as_bytes())
    }

    /// Windows renames files that are open, because the standard library shares them.
    fn rotate(&mut self) -> io::Result<()> {
        let mut former = self.path.clone().into_os_string();
        former.push(".1");
        fs::rename(&self.path, former)?;
        *self = Self::bounded(&self.path, self.largest)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_files_of_bounded_size_hold_the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state").join("portolan.log");
        let mut log = LogFile::bounded(&path, 100).unwrap();
        (0..50).for_each(|number| log.write(&format!("line {number:03}\n")).unwrap());
        drop(log);
        let mut log = LogFile::bounded(&path, 100).unwrap();
        log.write("line 050\n").unwrap();
        let former = fs::read_to_string(path.with_extension("log.1")).unwrap();
        let current = fs::read_to_string(&path).unwrap();
        assert!(former.len() <= 100 && current.len() <= 100, "{former}{current}");
        assert!((former + &current).ends_with("line 047\nline 048\nline 049\nline 050\n"));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 2);
    }
}
