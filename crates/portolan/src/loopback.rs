//! `route_localnet`: with it, packets from 127.0.0.1 to a node port may leave the node, and packets from other hosts to
//! 127.0.0.1 could come in. The rules drop the latter, so that it is set only while those rules are in place, and set back
//! to what was found before they go.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

const SYSCTL: &str = "/proc/sys/net/ipv4/conf/all/route_localnet";
/// The file beside the control socket that holds the value which was found. Both are lost with a reboot.
const NOTE: &str = "route_localnet";
const ALLOWED: &str = "1";

pub struct LoopbackRouting {
    sysctl: PathBuf,
    note: PathBuf,
}

impl LoopbackRouting {
    pub fn beside(control_socket: &Path) -> Self {
        Self::at(Path::new(SYSCTL), control_socket)
    }

    fn at(sysctl: &Path, control_socket: &Path) -> Self {
        Self { sysctl: sysctl.into(), note: control_socket.with_file_name(NOTE) }
    }

    /// A value that is set already was set by another process, or by an earlier one of ours: what that one found stays.
    pub fn allow(&self) -> anyhow::Result<()> {
        let found = self.read()?;
        if found == ALLOWED {
            return Ok(());
        }
        self.write_note(&found).with_context(|| {
            format!(
                "{} stays {found}, and 127.0.0.1 does not serve node ports: the value to set back cannot be written to {} \
                 (make its directory writable, or free space there)",
                self.sysctl.display(),
                self.note.display()
            )
        })?;
        tracing::info!("setting {} from {found} to {ALLOWED}", self.sysctl.display());
        self.write(ALLOWED)
    }

    /// Sets back what was found. Returns whether there was anything to set back.
    pub fn restore(&self) -> anyhow::Result<bool> {
        let found = match fs::read_to_string(&self.note) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error).with_context(|| format!("reading {}", self.note.display())),
        };
        let found = found.trim();
        // An incomplete file is no value.
        ensure!(
            found.parse::<i32>().is_ok(),
            "{} holds {found:?}, which is not a value of {}: remove the file, and set the value to 0 unless another program \
             needs it",
            self.note.display(),
            self.sysctl.display()
        );
        tracing::info!("setting {} back to {found}", self.sysctl.display());
        self.write(found)?;
        self.forget()?;
        Ok(true)
    }

    /// Whether it is set, by whatever program.
    pub fn is_allowed(&self) -> bool {
        self.read().is_ok_and(|value| value == ALLOWED)
    }

    /// The value stays: another proxy needs it from now on.
    pub fn forget(&self) -> anyhow::Result<()> {
        match fs::remove_file(&self.note) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.note.display()))
            }
            _ => Ok(()),
        }
    }

    fn read(&self) -> anyhow::Result<String> {
        let value = fs::read_to_string(&self.sysctl).with_context(|| format!("reading {}", self.sysctl.display()))?;
        Ok(value.trim().to_owned())
    }

    fn write(&self, value: &str) -> anyhow::Result<()> {
        fs::write(&self.sysctl, value).with_context(|| {
            format!(
                "setting {} to {value} (set it from outside, or run `portolan proxy --init-only` once in a privileged \
                 container)",
                self.sysctl.display()
            )
        })
    }

    fn write_note(&self, found: &str) -> std::io::Result<()> {
        self.note.parent().map_or(Ok(()), fs::create_dir_all)?;
        let draft = self.note.with_extension("new");
        let written = fs::write(&draft, found).and_then(|()| fs::rename(&draft, &self.note));
        if written.is_err() {
            // It takes room that is short, and another attempt writes it again.
            _ = fs::remove_file(&draft);
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routing(value: &str) -> (tempfile::TempDir, LoopbackRouting) {
        let folder = tempfile::tempdir().unwrap();
        let sysctl = folder.path().join("sysctl");
        fs::write(&sysctl, value).unwrap();
        let routing = LoopbackRouting::at(&sysctl, &folder.path().join("run/portolan.sock"));
        (folder, routing)
    }

    #[test]
    fn what_was_found_is_set_back_also_by_a_later_process() {
        let (folder, routing) = routing("0\n");
        routing.allow().unwrap();
        assert_eq!(routing.read().unwrap(), "1");
        let later = LoopbackRouting::at(&folder.path().join("sysctl"), &folder.path().join("run/portolan.sock"));
        later.allow().unwrap();
        assert!(later.restore().unwrap());
        assert_eq!(routing.read().unwrap(), "0");
        assert!(!later.restore().unwrap());
    }

    #[test]
    fn a_value_that_another_process_has_set_stays() {
        let (_folder, routing) = routing("1\n");
        routing.allow().unwrap();
        assert!(!routing.restore().unwrap());
        assert_eq!(routing.read().unwrap(), "1");
    }
    /// A full disk may leave a file without content.
    #[test]
    fn an_incomplete_note_is_reported_and_not_used() {
        let (folder, routing) = routing("0\n");
        routing.allow().unwrap();
        for incomplete in ["", "\n", "x"] {
            fs::write(folder.path().join("run/route_localnet"), incomplete).unwrap();
            let error = routing.restore().unwrap_err().to_string();
            assert!(error.contains("run/route_localnet holds") && error.contains("remove the file"), "{error}");
            assert_eq!(routing.read().unwrap(), "1");
        }
    }

    #[test]
    fn a_value_that_cannot_be_noted_is_not_set() {
        let (folder, routing) = routing("0\n");
        fs::create_dir_all(folder.path().join("run/route_localnet/full")).unwrap();
        let error = format!("{:#}", routing.allow().unwrap_err());
        assert!(error.contains("cannot be written to") && error.contains("free space"), "{error}");
        assert_eq!(routing.read().unwrap(), "0");
        assert!(!folder.path().join("run/route_localnet.new").exists());
    }
}
