//! What the program needs of Linux.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, tcgetattr, tcgetwinsize, tcsetattr};

/// Where the running daemon is asked.
pub(crate) const CONTROL_SOCKET: &str = "/run/portolan/portolan.sock";
pub(crate) const STATE_DIRECTORY: &str = "/var/lib/portolan";

/// The control socket, and a connection to it.
pub(crate) use std::os::unix::net::{UnixListener as Listener, UnixStream as Stream};

pub(crate) fn connect(path: &Path) -> io::Result<Stream> {
    UnixStream::connect(path)
}

/// Only root can open the socket.
pub(crate) fn listen(path: &Path) -> anyhow::Result<Listener> {
    _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).context("listening")?;
    let permissions = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(path, permissions).context("setting its permissions to 0600")?;
    Ok(listener)
}

/// Who can open the socket may ask.
pub(crate) fn admit(_listener: &Listener, _line: &[u8]) -> bool {
    true
}

/// Whether a client says first why it may ask.
pub(crate) const HAS_SECRET: bool = false;

pub(crate) fn pair() -> io::Result<(Stream, Stream)> {
    UnixStream::pair()
}

/// For the standard input of another process.
pub(crate) fn as_input(stream: Stream) -> Stdio {
    Stdio::from(OwnedFd::from(stream))
}

/// The standard input of this process, which is a socket.
pub(crate) fn from_input() -> io::Result<Stream> {
    io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from)
}

/// Also after the file was replaced.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    Ok("/proc/self/exe".into())
}

pub(crate) fn into_descriptor(file: File) -> io::Result<OwnedFd> {
    Ok(file.into())
}

pub(crate) fn from_descriptor(descriptor: OwnedFd) -> io::Result<File> {
    Ok(descriptor.into())
}

/// A file that only this user can open.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options.mode(0o600)
}

pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Replaces this process, so that signals and the exit status are those of the command.
pub(crate) fn become_command(mut command: Command) -> io::Result<u8> {
    Err(command.exec())
}

pub(crate) fn host_name() -> io::Result<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
}

pub(crate) fn has_ipv6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// Who starts the daemon reads its standard error.
pub(crate) fn log_file(_as_service: bool, _state_directory: &Path) -> Option<PathBuf> {
    None
}

/// Linux has no services of Windows' kind.
pub(crate) fn run(as_service: bool, daemon: impl FnOnce() -> anyhow::Result<u8>) -> anyhow::Result<u8> {
    if as_service {
        tracing::warn!("--windows-service (windowsRunAsService) has no effect: this is not Windows");
    }
    daemon()
}

pub(crate) use rustix::termios::Termios as TerminalSettings;

pub(crate) fn terminal_settings() -> io::Result<TerminalSettings> {
    Ok(tcgetattr(io::stdin())?)
}

pub(crate) fn make_terminal_raw(mut settings: TerminalSettings) -> io::Result<()> {
    settings.make_raw();
    Ok(tcsetattr(io::stdin(), OptionalActions::Now, &settings)?)
}

pub(crate) fn restore_terminal(settings: &TerminalSettings) -> io::Result<()> {
    Ok(tcsetattr(io::stdin(), OptionalActions::Drain, settings)?)
}

/// Columns and rows.
pub(crate) fn terminal_size() -> Option<(u16, u16)> {
    tcgetwinsize(io::stdout()).ok().map(|size| (size.ws_col, size.ws_row))
}

/// Whether standard output takes more, now.
pub(crate) fn output_has_room() -> bool {
    let out = io::stdout();
    let mut look = [PollFd::new(&out, PollFlags::OUT)];
    poll(&mut look, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}
