//! What the program needs of Windows.
//!
//! The control socket is a port on the loopback address, and the file of its name holds the port and a secret. Only administrators
//! and the system can read the file, and a client sends the secret first. A named pipe would need no secret, but the standard
//! library has neither a listener for it nor timeouts.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use portolan_kernel::fd::OwnedFd;
use portolan_kernel::files::create_for_administrators;
use portolan_kernel::{random, service};

use crate::exit::PROXY_FAILURE;

/// Where the running daemon is asked.
pub(crate) const CONTROL_SOCKET: &str = r"C:\ProgramData\portolan\control";
pub(crate) const STATE_DIRECTORY: &str = r"C:\ProgramData\portolan";

pub(crate) type Stream = TcpStream;

pub(crate) struct Listener {
    socket: TcpListener,
    secret: String,
}

impl Listener {
    pub(crate) fn incoming(&self) -> std::net::Incoming<'_> {
        self.socket.incoming()
    }
}

pub(crate) fn connect(path: &Path) -> io::Result<Stream> {
    let text = std::fs::read_to_string(path)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "it does not hold a port and a secret");
    let (port, secret) = text.trim().split_once(' ').ok_or_else(wrong)?;
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port.parse().map_err(|_| wrong())?))?;
    stream.write_all(format!("{secret}\n").as_bytes())?;
    Ok(stream)
}

pub(crate) fn listen(path: &Path) -> anyhow::Result<Listener> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening")?;
    let bytes: [u8; 32] = random::bytes().context("making a secret")?;
    let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = create_for_administrators(path).context("creating it for administrators alone")?;
    writeln!(file, "{} {secret}", socket.local_addr()?.port()).context("writing it")?;
    Ok(Listener { socket, secret })
}

/// Whether the first line of a client is the secret. The time of the comparison does not depend on where they differ.
pub(crate) fn admit(listener: &Listener, line: &[u8]) -> bool {
    let given = line.strip_suffix(b"\n").unwrap_or(line);
    let differences = given.iter().zip(listener.secret.bytes()).filter(|(given, own)| **given != *own).count();
    given.len() == listener.secret.len() && differences == 0
}

/// Whether a client says first why it may ask.
pub(crate) const HAS_SECRET: bool = true;

fn only_linux(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what} is not possible on Windows"))
}

pub(crate) fn pair() -> io::Result<(Stream, Stream)> {
    Err(only_linux("a DNS server beside the rules (run `portolan dns` as a process of its own)"))
}

pub(crate) fn as_input(_stream: Stream) -> Stdio {
    Stdio::null()
}

pub(crate) fn from_input() -> io::Result<Stream> {
    Err(only_linux("a DNS server beside the rules"))
}

pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

pub(crate) fn into_descriptor(_file: File) -> io::Result<OwnedFd> {
    Err(only_linux("handing over to another process"))
}

pub(crate) fn from_descriptor(_descriptor: OwnedFd) -> io::Result<File> {
    Err(only_linux("taking over from another process"))
}

/// The folder decides who can open a file.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Folders for temporary files belong to one user on Windows.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)
}

/// Windows cannot replace a process; this one waits for the command, and ends with its exit status.
pub(crate) fn become_command(mut command: Command) -> io::Result<u8> {
    let code = command.status()?.code().unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(1))
}

pub(crate) fn host_name() -> io::Result<String> {
    portolan_kernel::host_name()
}

pub(crate) fn has_ipv6() -> bool {
    true
}

/// A service has no console, and what it writes to standard error is lost.
pub(crate) fn log_file(as_service: bool, state_directory: &Path) -> Option<PathBuf> {
    as_service.then(|| state_directory.join("portolan.log"))
}

/// As a program of the console, or under the service control manager.
pub(crate) fn run(
    as_service: bool,
    daemon: impl FnOnce() -> anyhow::Result<u8> + Send + 'static,
) -> anyhow::Result<u8> {
    if !as_service {
        return daemon();
    }
    let body = move || match daemon() {
        Ok(status) => u32::from(status),
        Err(error) => {
            tracing::error!("{error:#}");
            u32::from(PROXY_FAILURE)
        }
    };
    let advice = "running as a service (is it the service control manager that starts this program?)";
    Ok(u8::try_from(service::run(body).context(advice)?).unwrap_or(PROXY_FAILURE))
}

/// A terminal is not handed to a command on a node from here.
#[derive(Clone)]
pub(crate) struct TerminalSettings {}

pub(crate) fn terminal_settings() -> io::Result<TerminalSettings> {
    Err(only_linux("handing the terminal to a command on a node"))
}

pub(crate) fn make_terminal_raw(_settings: TerminalSettings) -> io::Result<()> {
    Err(only_linux("handing the terminal to a command on a node"))
}

pub(crate) fn restore_terminal(_settings: &TerminalSettings) -> io::Result<()> {
    Ok(())
}

pub(crate) fn terminal_size() -> Option<(u16, u16)> {
    None
}

/// This cannot be asked; a write that fails ends the process.
pub(crate) fn output_has_room() -> bool {
    true
}
