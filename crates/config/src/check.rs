//! The checks that a configuration must pass. All errors are reported, each with what to write instead.

use std::net::SocketAddr;

use ipnet::IpNet;

use crate::balancing;
use crate::document::Document;
use crate::gates::is_on;
use crate::lenient::{parse_address, parse_range};
use crate::mode::ConfiguredMode;

const KEYWORDS: [&str; 3] = ["primary", "localhost", "all"];
pub(crate) const LOCAL_MODES: [&str; 4] = ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"];
/// kube-proxy accepts only the previous release here.
const PREVIOUS_VERSION: &str = "1.36";

pub(crate) fn check(document: &Document) -> Vec<String> {
    let mut checker = Checker { document, errors: Vec::new() };
    checker.mode();
    checker.numbers();
    checker.sync_periods();
    checker.addresses();
    checker.local_pods();
    checker.node_ports();
    checker.names();
    checker.balancing();
    checker.errors
}

struct Checker<'a> {
    document: &'a Document,
    errors: Vec<String>,
}

impl Checker<'_> {
    fn wrong(&mut self, path: &str, what: &str) {
        self.errors.push(format!("{}: {what}", self.document.place(path)));
    }

    fn mode(&mut self) {
        let text = self.document.text("mode");
        match ConfiguredMode::parse(text) {
            None => self.wrong(
                "mode",
                &format!(
                    "{text:?} is not a mode: must be nftables, iptables, ipvs, ebpf, userspace or blank (blank means \
                     nftables), or kernelspace on Windows"
                ),
            ),
            Some(ConfiguredMode::Ipvs) if !is_on(self.document.gates(), "KubeProxyIPVS") => {
                self.wrong("mode", "ipvs is disabled by the feature gate KubeProxyIPVS=false: write nftables");
            }
            Some(ConfiguredMode::Ipvs) => self.ipvs(),
            Some(_) => {}
        }
    }

    fn balancing(&mut self) {
        for (path, reason) in balancing::check(self.document) {
            self.wrong(path, &reason);
        }
    }

    fn ipvs(&mut self) {
        for path in ["ipvs.tcpTimeout", "ipvs.tcpFinTimeout", "ipvs.udpTimeout"] {
            self.not_negative(path);
        }
        for text in self.document.list("ipvs.excludeCIDRs") {
            if parse_range(text).is_none() {
                self.wrong("ipvs.excludeCIDRs", &format!("{text:?} is not a range: write for example 10.0.0.0/24"));
            }
        }
    }

    fn numbers(&mut self) {
        self.within("iptables.masqueradeBit", 0, 31);
        if self.document.mode().section() == "nftables" {
            self.within("nftables.masqueradeBit", 0, 31);
        }
        self.within("oomScoreAdj", -1000, 1000);
        for path in ["conntrack.maxPerCore", "conntrack.min", "clientConnection.burst", "logging.verbosity"] {
            self.within(path, 0, i64::from(i32::MAX));
        }
        for name in ["tcpEstablishedTimeout", "tcpCloseWaitTimeout", "udpTimeout", "udpStreamTimeout"] {
            self.not_negative(&format!("conntrack.{name}"));
        }
    }

    fn within(&mut self, path: &str, least: i64, most: i64) {
        let number = self.document.integer(path);
        if !(least..=most).contains(&number) {
            self.wrong(path, &format!("{number} is out of range: write a number from {least} to {most}"));
        }
    }

    fn not_negative(&mut self, path: &str) {
        let span = self.document.span(path);
        if span.0 < 0 {
            self.wrong(path, &format!("{span} is negative: write 0s or more"));
        }
    }

    fn sync_periods(&mut self) {
        let (most, least) = (self.document.of_mode("syncPeriod"), self.document.of_mode("minSyncPeriod"));
        let (sync, pause) = (self.document.span(&most), self.document.span(&least));
        if sync.0 <= 0 {
            self.wrong(&most, &format!("{sync} is too short: write more than 0s, for example 30s"));
        }
        self.not_negative(&least);
        if sync < pause {
            self.wrong(&least, &format!("{pause} is longer than {most}, which is {sync}: write at most that"));
        }
        let period = self.document.span("configSyncPeriod");
        if period.0 <= 0 {
            self.wrong("configSyncPeriod", &format!("{period} is too short: write more than 0s, for example 15m"));
        }
    }

    fn addresses(&mut self) {
        let address = self.document.text("bindAddress");
        if parse_address(address).is_none() {
            self.wrong(
                "bindAddress",
                &format!("{address:?} is not an address: write for example 192.168.1.10, or 0.0.0.0"),
            );
        }
        for path in ["healthzBindAddress", "metricsBindAddress"] {
            let text = self.document.text(path);
            match text.parse::<SocketAddr>() {
                Ok(socket) if socket.port() != 0 => {}
                Ok(_) => self.wrong(path, &format!("{text:?} has port 0: write a port from 1 to 65535")),
                Err(_) => self.wrong(
                    path,
                    &format!("{text:?} is not an address with a port: write for example 0.0.0.0:10256 or [::]:10256"),
                ),
            }
        }
    }

    fn local_pods(&mut self) {
        let mode = self.document.text("detectLocalMode");
        match LOCAL_MODES.iter().find(|known| known.eq_ignore_ascii_case(mode)) {
            Some(&"ClusterCIDR") => self.cluster_ranges(),
            Some(&"BridgeInterface") => self.interface("detectLocal.bridgeInterface", "--pod-bridge-interface"),
            Some(&"InterfaceNamePrefix") => {
                self.interface("detectLocal.interfaceNamePrefix", "--pod-interface-name-prefix");
            }
            Some(_) => {}
            None => self.wrong(
                "detectLocalMode",
                &format!("{mode:?} is not a mode of pod detection: write one of {}", LOCAL_MODES.join(", ")),
            ),
        }
    }

    fn cluster_ranges(&mut self) {
        let text = self.document.text("clusterCIDR");
        let parts: Vec<&str> = if text.is_empty() { Vec::new() } else { text.split(',').map(str::trim).collect() };
        if let Some(part) = parts.iter().find(|part| parse_range(part).is_none()) {
            let advice = "write for example 10.244.0.0/16 or fd00:10:244::/48";
            return self.wrong("clusterCIDR", &format!("{part:?} is not a range: {advice}"));
        }
        let is_v6 = |part: &&str| matches!(parse_range(part), Some(IpNet::V6(_)));
        let v6 = parts.iter().filter(|part| is_v6(part)).count();
        if parts.len() > 2 || (parts.len() == 2 && v6 != 1) {
            self.wrong("clusterCIDR", &format!("{text:?}: write one range, or one IPv4 and one IPv6 range"));
        }
    }

    fn interface(&mut self, path: &str, flag: &str) {
        let name = self.document.text(path);
        let is_allowed = |it: char| it.is_ascii_graphic() && !matches!(it, '/' | '"' | '*' | '\\');
        let mode = self.document.text("detectLocalMode");
        if name.is_empty() {
            self.wrong(
                path,
                &format!("detectLocalMode {mode} needs it: write the name of an interface, or use {flag}"),
            );
        } else if name.len() > 15 || !name.chars().all(is_allowed) {
            self.wrong(path, &format!("{name:?} is not the name of an interface: write 1 to 15 plain characters"));
        }
    }

    fn node_ports(&mut self) {
        let items = self.document.list("nodePortAddresses");
        for (index, item) in items.iter().enumerate() {
            let is_keyword = KEYWORDS.contains(&item.as_str());
            if is_keyword && items[..index].contains(item) {
                self.wrong("nodePortAddresses", &format!("{item:?} is listed twice: write it once"));
            } else if !is_keyword && parse_range(item).is_none() {
                let advice = "write a range such as 192.168.0.0/16, or primary, localhost or all";
                self.wrong("nodePortAddresses", &format!("{item:?} is not a range: {advice}"));
            }
        }
    }

    fn names(&mut self) {
        let name = self.document.text("hostnameOverride");
        if !name.is_empty() && name.trim().is_empty() {
            self.wrong(
                "hostnameOverride",
                "it is blank: write the name of the Node object of this node, or leave it out",
            );
        }
        let version = self.document.text("showHiddenMetricsForVersion");
        if !version.is_empty() && version != PREVIOUS_VERSION {
            let advice = format!("leave it out or write {PREVIOUS_VERSION}");
            self.wrong("showHiddenMetricsForVersion", &format!("{version:?} is not the previous version: {advice}"));
        }
        let format = self.document.text("logging.format");
        if !["text", "json"].contains(&format) {
            self.wrong("logging.format", &format!("{format:?} is not a log format: write text or json"));
        }
    }
}
