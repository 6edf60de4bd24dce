//! Where the hooks of this node are: its network namespace, its cgroup, and its folder of pins.

use std::path::PathBuf;

use portolan_kernel::bpf::{find_cgroup2, network_namespace_cookie};
use portolan_kernel::files::symlink;

use super::former;
use super::pins::{CGROUP, LINKS, failure, io_failure, nodes, remove_pin};
use crate::Error;

/// Where the hooks of this node are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HookPlace {
    /// The network namespace of the node, as programs know it.
    pub(super) namespace: u64,
    /// The processes of this cgroup and those below it meet the hooks.
    pub(super) cgroup: PathBuf,
}

impl HookPlace {
    /// For the network namespace of the calling thread; an empty cgroup is the root of cgroup v2.
    pub(super) fn find(cgroup: &str) -> Result<Self, Error> {
        let namespace = network_namespace_cookie()?;
        if !cgroup.is_empty() {
            return Ok(Self { namespace, cgroup: cgroup.into() });
        }
        let root = find_cgroup2()?.ok_or_else(|| failure("finding the root of cgroup v2", "it is not mounted"))?;
        Ok(Self { namespace, cgroup: root })
    }

    pub(super) fn folder(&self) -> PathBuf {
        nodes().join(format!("{:x}", self.namespace))
    }

    /// Where systemd keeps all processes in cgroups below the root, the tasks of the root are those of the kernel. Its sockets,
    /// such as those of NFS, remember the translated address on older kernels and never find another endpoint.
    pub(super) fn passes_root(&self) -> bool {
        ["init.scope", "system.slice"].iter().any(|unit| self.cgroup.join(unit).is_dir())
    }

    /// The cgroup may be another one than before.
    pub(super) fn note_cgroup(&self) -> Result<(), Error> {
        let path = self.folder().join(CGROUP);
        remove_pin(&path)?;
        symlink(&self.cgroup, &path).map_err(|error| io_failure("creating", &path, error))
    }

    pub(super) fn links(&self) -> PathBuf {
        self.folder().join(LINKS)
    }

    pub(super) fn maps(&self, layout: u64) -> PathBuf {
        self.folder().join(format!("{}{layout}", former::MAPS))
    }
}
