//! The program that serves the page: over manifests alone, or beside a daemon on the lab's node.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use portolan_testkit::{Host, Lab, Protocol, topology};
use tempfile::TempDir;

use crate::poll::until;

const PROGRAM: &str = env!("CARGO_BIN_EXE_portolan");

pub(crate) struct Site {
    folder: TempDir,
    server: Option<Child>,
    daemon: Option<Child>,
    pub(crate) lab: Option<Lab>,
    pub(crate) address: String,
}

impl Site {
    /// A page over these manifests, without a daemon.
    pub(crate) fn of_manifests(files: &[(&str, &str)]) -> Site {
        let mut site = Site::new(files, None);
        site.serve("127.0.0.1:0");
        site
    }

    /// A page beside a daemon with these manifests.
    pub(crate) fn of_daemon(files: &[(&str, &str)]) -> Site {
        let mut site = Site::new(files, Some(Lab::with_cgroup().unwrap_or_else(|error| panic!("{error}"))));
        site.start_daemon();
        site.serve("127.0.0.1:0");
        site
    }

    fn new(files: &[(&str, &str)], lab: Option<Lab>) -> Site {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("manifests")).unwrap();
        let site = Site { folder, server: None, daemon: None, lab, address: String::new() };
        files.iter().for_each(|(name, text)| site.write(name, text));
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces a manifest in one step.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let draft = self.path("draft");
        fs::write(&draft, text).unwrap();
        fs::rename(draft, self.path("manifests").join(name)).unwrap();
    }

    pub(crate) fn node(&self) -> &Host {
        self.lab.as_ref().expect("a site of a daemon").host(topology::NODE)
    }

    /// One connection from a pod of the node.
    pub(crate) fn connect(&self, to: &str) {
        let source = portolan_testkit::Source::parse("pod-a3", "0.0.0.0".parse().unwrap()).unwrap();
        let lab = self.lab.as_ref().expect("a site of a daemon");
        let within = std::time::Duration::from_secs(5);
        lab.probe(&source, to.parse().unwrap(), Protocol::Tcp, within);
    }

    fn start_daemon(&mut self) {
        let mut command = self.command("proxy");
        self.add_facts(&mut command);
        let cgroup = self.lab.as_ref().and_then(|lab| lab.cgroup().map(|it| it.display().to_string()));
        command.args(cgroup.map(|it| format!("--ebpf-cgroup={it}")));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.daemon = Some(self.node().run(|| command.spawn()).unwrap());
        until("the kernel matches the plan", || {
            let mut verify = self.command("verify");
            self.node().run(|| verify.output()).unwrap().status.success()
        });
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg(name).arg("--control-socket").arg(self.path("control.sock"));
        command
    }

    fn add_facts(&self, command: &mut Command) {
        command.args(["--hostname-override", "node-a", "--cluster-cidr", "10.244.0.0/16"]);
        command.arg("--state-directory").arg(self.path("state"));
        command.arg("--manifests").arg(self.path("manifests"));
    }

    /// Starts the server; it prints the address at which it listens.
    fn serve(&mut self, listen: &str) {
        let mut command = Command::new(PROGRAM);
        command.args(["page", "--listen", listen]);
        match self.daemon {
            Some(_) => drop(command.arg("--control-socket").arg(self.path("control.sock"))),
            None => self.add_facts(&mut command),
        }
        let mut server = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        self.address = address_of(BufReader::new(server.stdout.take().unwrap()));
        self.server = Some(server);
    }

    /// Ends the server, and starts another one at the same address.
    pub(crate) fn end_server(&mut self) {
        let mut server = self.server.take().expect("the server runs");
        server.kill().unwrap();
        server.wait().unwrap();
    }

    pub(crate) fn serve_again(&mut self) {
        let address = self.address.clone();
        self.serve(address.trim_start_matches("http://").trim_end_matches('/'));
    }
}

fn address_of(output: impl BufRead) -> String {
    let mut lines = output.lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("http://")).expect("the server prints its address");
    let rest = &line[line.find("http://").unwrap()..];
    let end = rest.find(|it: char| it.is_whitespace()).unwrap_or(rest.len());
    rest[..end].trim_end_matches('/').to_owned() + "/"
}

impl Drop for Site {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.daemon].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
