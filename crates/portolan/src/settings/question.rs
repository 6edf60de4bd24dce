//! Settings of a command that answers from manifests, read as the daemon reads its own.

use portolan_config::{Level, Read};
use portolan_source::Options;

use super::facts::{Keep, manifest_options, node_name_of};
use super::file;
use super::traffic::{Purpose, TrafficSettings};
use crate::flags::SettingFlags;

#[derive(Clone, Debug)]
pub struct QuestionSettings {
    pub manifests: Options,
    pub traffic: TrafficSettings,
    /// The node's primary address; overrides the Node object.
    pub bind_address: Option<std::net::IpAddr>,
}

impl QuestionSettings {
    /// Warnings go to standard error.
    pub fn read(flags: &SettingFlags) -> anyhow::Result<Self> {
        let given = &flags.kube_proxy.0;
        let (Read { document, mut notices, .. }, config_file) = file::read(given)?;
        let manifests = manifest_options(&flags.manifests, node_name_of(&document)?, Keep::Nothing)?;
        let (traffic, traffic_notices) =
            TrafficSettings::read(&document, given, &flags.own, config_file.is_some(), Purpose::Query);
        notices.extend(traffic_notices);
        for notice in notices.iter().filter(|notice| notice.level != Level::Info) {
            eprintln!("portolan: {}", notice.text);
        }
        Ok(Self { manifests, traffic, bind_address: document.bind_address() })
    }
}
