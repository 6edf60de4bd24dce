//! The daemon under test, which is restarted often.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, io};

use portolan_testkit::cluster::Program;
use portolan_testkit::{Host, Lab, topology};
use rustix::process::Signal;

use crate::stage::Stage;

const PORTOLAN: &str = env!("CARGO_BIN_EXE_portolan");
/// The log of all daemons. It is kept, to find out later why something failed.
const LOG: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/soak.log");
/// Memory is compared in this mode only.
const FIRST_MODE: &str = "nftables";
const METRICS: &str = "127.0.0.1:10249";
/// A daemon that hangs must not hang the soak.
const PATIENCE: Duration = Duration::from_secs(10);
pub(crate) const DNS: &str = "169.254.20.10";

pub(crate) struct Daemon {
    lab: Arc<Lab>,
    folder: PathBuf,
    kubeconfig: PathBuf,
    running: Mutex<Option<(Program, Instant)>>,
    mode: Mutex<(String, Instant)>,
}

impl Daemon {
    pub(crate) fn start(stage: &Stage) -> Self {
        let (lab, folder, kubeconfig) = (stage.lab.clone(), stage.folder(), stage.kubeconfig());
        let mode = Mutex::new((String::new(), Instant::now()));
        let daemon = Self { lab, folder, kubeconfig, running: Mutex::new(None), mode };
        _ = fs::remove_file(LOG);
        println!("the log of the daemon: {LOG}");
        daemon.write_mode(FIRST_MODE);
        daemon.restart(Signal::TERM);
        daemon
    }

    pub(crate) fn node(&self) -> &Host {
        self.lab.host(topology::NODE)
    }

    pub(crate) fn host(&self, name: &str) -> &Host {
        self.lab.host(name)
    }

    /// The running daemon changes its mode when its configuration file changes.
    pub(crate) fn write_mode(&self, mode: &str) {
        let kubeconfig = self.kubeconfig.display();
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: {mode}\n\
             hostnameOverride: node-a\nclusterCIDR: 10.244.0.0/16\nconntrack: {{maxPerCore: 0}}\n\
             clientConnection: {{kubeconfig: {kubeconfig}}}\n"
        );
        let (draft, file) = (self.folder.join("config.draft"), self.config());
        fs::write(&draft, text).expect("the file can be written");
        fs::rename(draft, file).expect("the file can be put in place");
        *self.mode.lock().expect("no thread panics with it") = (mode.to_owned(), Instant::now());
    }

    fn config(&self) -> PathBuf {
        self.folder.join("config.conf")
    }

    /// Ends the daemon, if one runs, and starts another.
    pub(crate) fn restart(&self, signal: Signal) {
        let mut running = self.running.lock().expect("no thread panics with it");
        if let Some((program, _)) = running.take() {
            program.end(signal);
        }
        let mut command = Command::new(PORTOLAN);
        command.arg("proxy").arg("--config").arg(self.config()).args(["--dns", DNS]);
        command.arg("--control-socket").arg(self.socket());
        let program = Program::start(self.node(), "portolan", command, Path::new(LOG)).expect("the program starts");
        *running = Some((program, Instant::now()));
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("portolan.sock")
    }

    /// The process, if it has run for that long in the first mode: each mode takes memory of its own.
    pub(crate) fn process(&self, at_least: Duration) -> Option<u32> {
        let (mode, since) = self.mode.lock().expect("no thread panics with it").clone();
        if mode != FIRST_MODE || since.elapsed() < at_least {
            return None;
        }
        let running = self.running.lock().expect("no thread panics with it");
        running.as_ref().filter(|(_, since)| since.elapsed() >= at_least).map(|(program, _)| program.id())
    }

    /// The page that Prometheus would read.
    pub(crate) fn metrics(&self) -> io::Result<String> {
        self.node().run(|| {
            let mut stream = TcpStream::connect(METRICS)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(stream, "GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
            let mut page = String::new();
            stream.read_to_string(&mut page).map(|_| page)
        })
    }

    /// Whether the kernel holds what the daemon has planned; otherwise the difference.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let mut command = Command::new(PORTOLAN);
        command.arg("verify").arg("--control-socket").arg(self.socket());
        let output = self.node().run(|| command.output()).map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        Err(text.chars().take(2_000).collect())
    }
}
