//! A real control plane in the lab: etcd, kube-apiserver and, optionally, kube-controller-manager.
//!
//! It runs on node-b, next to the node under test, so that it adds no links and addresses to the topology of the
//! scenarios. Certificates and data are deleted with it.

mod address;
mod client;
mod kubeconfig;
mod path;
mod program;
mod register;
mod store;
mod wire;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

pub use address::SERVER;
pub use client::Client;
pub use kubeconfig::Identity;
pub use path::path_of;
pub use program::{Program, kubernetes_program};
pub use register::{node, pods, read_manifests};

use address::{SERVER_ADDRESS, SERVER_HOST};

use crate::error::Error;
use crate::lab::Lab;

/// The API server's self-signed certificate, in the folder of the control plane.
const AUTHORITY: &str = "certificates/apiserver.crt";
/// Where ClusterIPs come from.
pub const SERVICE_RANGES: &str = "10.96.0.0/16,fd00:10:96::/112";
/// About seven seconds on an idle machine; a busy machine must not fail a test that is only slow.
const READY_WITHIN: Duration = Duration::from_secs(180);

pub struct ControlPlane {
    lab: Arc<Lab>,
    client: Client,
    controllers: Option<Program>,
    api_server: Option<Program>,
    _etcd: Program,
    folder: TempDir,
}

impl ControlPlane {
    /// Returns when the API server is ready and its own Service `kubernetes` is hidden.
    pub fn start(lab: &Arc<Lab>) -> Result<ControlPlane, Error> {
        let folder = tempfile::tempdir().map_err(|source| Error::Folder { source })?;
        write_credentials(folder.path())?;
        let etcd = start_etcd(lab, folder.path())?;
        let mut api_server = start_api_server(lab, folder.path())?;
        let authority = folder.path().join(AUTHORITY);
        api_server.wait_until(READY_WITHIN, || authority.exists())?;
        let client = Client::open(lab, Identity::Admin, &authority)?;
        api_server.wait_until(READY_WITHIN, || client.is_ready())?;
        hide_own_service(&mut api_server, &client)?;
        Ok(ControlPlane {
            lab: lab.clone(),
            client,
            controllers: None,
            api_server: Some(api_server),
            _etcd: etcd,
            folder,
        })
    }

    /// The administrator's client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Writes complete objects directly into the server's store; the server sees them like any other change.
    pub fn store_all(&self, objects: &[Value]) -> Result<(), Error> {
        self.lab.host(SERVER_HOST).run(|| store::store_all(objects))
    }

    /// A client with another identity.
    pub fn client_of(&self, identity: Identity) -> Result<Client, Error> {
        Client::open(&self.lab, identity, &self.folder.path().join(AUTHORITY))
    }

    pub fn kubeconfig(&self, identity: Identity) -> PathBuf {
        self.folder.path().join(identity.file())
    }

    /// A folder for files that live as long as the control plane.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// SIGKILL: connections break without notice.
    pub fn kill_api_server(&mut self) {
        self.api_server.take().map(|program| program.end(Signal::KILL));
    }

    /// SIGTERM: the server closes its watches.
    pub fn stop_api_server(&mut self) {
        self.api_server.take().map(|program| program.end(Signal::TERM));
    }

    /// The same address, certificate and data as before.
    pub fn start_api_server(&mut self) -> Result<(), Error> {
        let mut api_server = start_api_server(&self.lab, self.folder.path())?;
        api_server.wait_until(READY_WITHIN, || self.client.is_ready())?;
        self.api_server = Some(api_server);
        Ok(())
    }

    /// From now on, EndpointSlices follow Pods, as in a cluster.
    pub fn start_controllers(&mut self) -> Result<(), Error> {
        let kubeconfig = self.kubeconfig(Identity::Admin);
        let mut command = Command::new(kubernetes_program("kube-controller-manager")?);
        command.arg("--kubeconfig").arg(kubeconfig).arg("--leader-elect=false").arg("--bind-address=127.0.0.1");
        command
            .arg("--controllers=endpointslice-controller,endpointslice-mirroring-controller,service-cidr-controller");
        let log = self.folder.path().join("kube-controller-manager.log");
        self.controllers = Some(Program::start(self.lab.host(SERVER_HOST), "kube-controller-manager", command, &log)?);
        Ok(())
    }

    /// Drops all packets between the API server and other hosts from now on; neither side is notified.
    pub fn cut_off(&self) -> Result<(), Error> {
        let rules = "table inet cut {
            chain input { type filter hook input priority 0; iifname != lo tcp dport 6443 drop; }
            chain output { type filter hook output priority 0; oifname != lo tcp sport 6443 drop; }
        }";
        self.lab.host(SERVER_HOST).command_with_input(&["nft", "-f", "-"], rules).map(drop)
    }

    pub fn reconnect(&self) -> Result<(), Error> {
        self.lab.host(SERVER_HOST).command(&["nft", "delete", "table", "inet", "cut"]).map(drop)
    }
}

fn write_credentials(folder: &Path) -> Result<(), Error> {
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|source| Error::Write { path, source })
    };
    write("tokens.csv", kubeconfig::tokens())?;
    let authority = folder.join(AUTHORITY);
    for identity in Identity::ALL {
        write(identity.file(), kubeconfig::kubeconfig(identity, SERVER, &authority).to_string())?;
    }
    let key = rcgen::KeyPair::generate().map_err(|error| Error::Key { reason: error.to_string() })?;
    write("service-accounts.key", key.serialize_pem())?;
    write("service-accounts.pub", key.public_key_pem())
}

fn start_etcd(lab: &Lab, folder: &Path) -> Result<Program, Error> {
    let mut command = Command::new(kubernetes_program("etcd")?);
    command.arg("--data-dir").arg(folder.join("etcd"));
    command.args(["--unsafe-no-fsync", "--quota-backend-bytes=8000000000", "--log-level=warn"]);
    Program::start(lab.host(SERVER_HOST), "etcd", command, &folder.join("etcd.log"))
}

/// The server signs its certificate itself and reuses it after a restart. RBAC denies everything without a role, so
/// that a test with the identity of kube-proxy shows that its role is sufficient.
fn start_api_server(lab: &Lab, folder: &Path) -> Result<Program, Error> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(kubernetes_program("kube-apiserver")?);
    command.args([
        "--etcd-servers=http://127.0.0.1:2379",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=1000",
        "--enable-priority-and-fairness=false",
    ]);
    command.arg(format!("--service-cluster-ip-range={SERVICE_RANGES}"));
    command.arg(format!("--bind-address={SERVER_ADDRESS}")).arg(format!("--advertise-address={SERVER_ADDRESS}"));
    command
        .arg(format!("--cert-dir={}", file("certificates")))
        .arg(format!("--token-auth-file={}", file("tokens.csv")));
    command.arg(format!("--service-account-key-file={}", file("service-accounts.pub")));
    command.arg(format!("--service-account-signing-key-file={}", file("service-accounts.key")));
    Program::start(lab.host(SERVER_HOST), "kube-apiserver", command, &folder.join("kube-apiserver.log"))
}

/// The Service `default/kubernetes` is assigned to another proxy by its label: scenarios do not expect it.
fn hide_own_service(api_server: &mut Program, client: &Client) -> Result<(), Error> {
    let patch = json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": "another-proxy"}}});
    let hidden = || client.patch("/api/v1/namespaces/default/services/kubernetes", &patch).is_ok();
    api_server.wait_until(READY_WITHIN, hidden)
}
