//! Changes of the mode by the configuration file.

use std::fs;

use portolan_dataplane::mode::Mode;
use portolan_dataplane::peers::leftovers;
use portolan_dataplane::{ModeSettings, OptionValue, Owned};
use portolan_testkit::topology;

use crate::node::Node;
use crate::poll::until;

/// Changes the mode, and waits until it is active and the objects of all other modes are gone, except where open
/// connections keep them.
pub(crate) fn switch(node: &Node, mode: &dyn Mode, more: &str) {
    let owned = owned(node, mode);
    write_mode(node, mode, more);
    until("the mode is active", || node.get("127.0.0.1:10249", "/proxyMode").ends_with(mode.name()));
    until("the objects of other modes are gone", || {
        node.lab.host(topology::NODE).run(|| leftovers(&owned).peers.iter().all(|peer| peer.place.is_busy()))
    });
    node.settle();
}

fn owned(node: &Node, mode: &dyn Mode) -> Owned {
    let mut settings = ModeSettings::default();
    let cgroup = node.lab.cgroup().expect("the lab has a cgroup").display().to_string();
    settings.options.set("ebpf-cgroup", OptionValue::Text(cgroup));
    let open = || mode.open(&settings).expect("the mode can be opened").owned();
    node.lab.host(topology::NODE).run(open)
}

pub(crate) fn write_mode(node: &Node, mode: &dyn Mode, more: &str) {
    let text = format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: {}\n\
         hostnameOverride: node-a\nclusterCIDR: 10.244.0.0/16\nnodePortAddresses: [192.168.50.0/24]\n{more}",
        mode.name()
    );
    fs::write(node.path("config.draft"), text).unwrap();
    fs::rename(node.path("config.draft"), node.path("config.conf")).unwrap();
}
