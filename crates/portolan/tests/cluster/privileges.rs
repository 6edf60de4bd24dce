//! The program needs no root: an ordinary user with CAP_NET_ADMIN is enough.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use portolan_testkit::cluster::Identity;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{WEB, endpoint, slice_path};

const NOBODY: u32 = 65534;

/// A folder of that user, with the program and a readable kubeconfig.
fn home_of_nobody(cluster: &Cluster) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let put = |from: &Path, name: &str| {
        let path = home.path().join(name);
        fs::copy(from, &path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        path
    };
    put(Path::new(env!("CARGO_BIN_EXE_portolan")), "portolan");
    let authority = put(&cluster.path("certificates/apiserver.crt"), "authority.crt");
    let kubeconfig = fs::read_to_string(cluster.control_plane.kubeconfig(Identity::KubeProxy)).unwrap();
    let kubeconfig = kubeconfig.replace(path_text(&cluster.path("certificates/apiserver.crt")), path_text(&authority));
    fs::write(home.path().join("kubeconfig"), kubeconfig).unwrap();
    chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    chown(home.path().join("kubeconfig"), Some(NOBODY), Some(NOBODY)).unwrap();
    home
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The command as that user, with this one capability and no way to get another.
fn as_nobody(home: &Path, control_socket: &PathBuf) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs"]);
    command.args(["--inh-caps=-all,+net_admin", "--ambient-caps=-all,+net_admin", "--bounding-set=-all,+net_admin"]);
    command.arg(home.join("portolan")).args([
        "proxy",
        "-v",
        "2",
        "--proxy-mode",
        "nftables",
        "--hostname-override",
        "node-a",
    ]);
    command.args(["--cluster-cidr", "10.244.0.0/16", "--kubeconfig"]).arg(home.join("kubeconfig"));
    command.arg("--control-socket").arg(control_socket);
    command
}

#[test]
fn an_ordinary_user_with_one_capability_can_run_it() {
    let cluster = Cluster::start();
    cluster.create_web(&["10.244.1.2"]);
    let home = home_of_nobody(&cluster);
    let daemon = cluster.start_program("portolan", as_nobody(home.path(), &home.path().join("control.sock")));
    cluster.until_answer("pod-a3", WEB, "pod-a1");
    cluster.patch(&slice_path("web"), &json!({"endpoints": [endpoint("10.244.2.2")]}));
    cluster.until_answer("pod-a3", WEB, "pod-b1");
    cluster.until_in_force();
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.id())).unwrap();
    let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert_eq!(line("Uid:").split_whitespace().nth(1), Some("65534"));
    let only_net_admin = format!("{:016x}", 1u64 << 12);
    assert_eq!(line("CapEff:").split_whitespace().nth(1), Some(&*only_net_admin));
}
