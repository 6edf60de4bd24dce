//! The JSON documents of HNS, schema 2.0. As kube-proxy writes them, empty fields are left out.

use serde::{Deserialize, Serialize};

use crate::Guid;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SchemaVersion {
    pub major: u32,
    pub minor: u32,
}

impl Default for SchemaVersion {
    fn default() -> Self {
        Self { major: 2, minor: 0 }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Network {
    #[serde(rename = "ID")]
    pub id: Guid,
    pub name: String,
    /// L2Bridge, Overlay, and others.
    #[serde(rename = "Type")]
    pub kind: String,
    pub policies: Vec<NetworkPolicy>,
}

/// Policies of a network have many types; only the routes to remote subnets matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct NetworkPolicy {
    #[serde(rename = "Type")]
    pub kind: String,
    pub settings: serde_json::Value,
}

/// On an overlay, the node that has a range of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RemoteSubnetRoute {
    pub destination_prefix: String,
    pub isolation_id: u32,
    pub provider_address: String,
    pub distributed_router_mac_address: String,
}

impl Network {
    pub fn is_overlay(&self) -> bool {
        self.kind.eq_ignore_ascii_case("overlay")
    }

    pub fn remote_subnets(&self) -> impl Iterator<Item = RemoteSubnetRoute> {
        let routes = self.policies.iter().filter(|policy| policy.kind == "RemoteSubnetRoute");
        routes.filter_map(|policy| serde_json::from_value(policy.settings.clone()).ok())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Endpoint {
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    pub id: Option<Guid>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_compute_network: Option<Guid>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Policy>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ip_configurations: Vec<IpConfiguration>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mac_address: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub flags: u32,
    pub schema_version: SchemaVersion,
}

impl Endpoint {
    pub fn is_remote(&self) -> bool {
        self.flags & endpoint_flags::REMOTE != 0
    }

    /// The node behind which a remote endpoint is, on an overlay.
    pub fn provider_address(&self) -> Option<&str> {
        let policy = self.policies.iter().find(|policy| policy.kind == "ProviderAddress")?;
        policy.settings.provider_address.as_deref()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IpConfiguration {
    pub ip_address: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub prefix_length: u32,
}

/// A policy of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Policy {
    #[serde(rename = "Type")]
    pub kind: String,
    pub settings: PolicySettings,
}

impl Policy {
    pub fn provider_address(address: String) -> Self {
        Self { kind: "ProviderAddress".into(), settings: PolicySettings { provider_address: Some(address) } }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PolicySettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_address: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct LoadBalancer {
    #[serde(rename = "ID", skip_serializing_if = "Option::is_none")]
    pub id: Option<Guid>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_compute_endpoints: Vec<Guid>,
    #[serde(rename = "SourceVIP", skip_serializing_if = "String::is_empty")]
    pub source_vip: String,
    /// None means every address of the node.
    #[serde(rename = "FrontendVIPs", skip_serializing_if = "Vec::is_empty")]
    pub frontend_vips: Vec<String>,
    pub port_mappings: Vec<PortMapping>,
    pub schema_version: SchemaVersion,
    #[serde(skip_serializing_if = "is_zero")]
    pub flags: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct PortMapping {
    /// The number of the protocol in IP packets.
    pub protocol: u32,
    pub internal_port: u16,
    pub external_port: u16,
    /// 0: by connection; 1: by source address and protocol; 2: by source address.
    #[serde(skip_serializing_if = "is_zero")]
    pub distribution_type: u32,
    #[serde(skip_serializing_if = "is_zero")]
    pub flags: u32,
}

pub mod endpoint_flags {
    /// The endpoint is on another node.
    pub const REMOTE: u32 = 1;
}

pub mod balancer_flags {
    /// Direct server return.
    pub const DSR: u32 = 1;
    pub const IPV6: u32 = 2;
}

pub mod mapping_flags {
    pub const LOCAL_ROUTED_VIP: u32 = 2;
    pub const USE_MUX: u32 = 4;
    pub const PRESERVE_DIP: u32 = 8;
    pub const VIP_EXTERNAL_IP: u32 = 16;
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What kube-proxy sends for a ClusterIP, with fields of the same names in the same spelling.
    #[test]
    fn a_load_balancer_is_written_as_hns_reads_it() {
        let balancer = LoadBalancer {
            host_compute_endpoints: vec!["8A1B6C1E-0000-4000-8000-000000000001".parse().expect("a GUID")],
            source_vip: "10.244.1.254".into(),
            frontend_vips: vec!["10.96.0.10".into()],
            port_mappings: vec![PortMapping {
                protocol: 6,
                internal_port: 8080,
                external_port: 80,
                distribution_type: 2,
                flags: 16,
            }],
            flags: balancer_flags::DSR,
            ..LoadBalancer::default()
        };
        let text = serde_json::to_string(&balancer).expect("it can be written");
        let expected = r#"{"HostComputeEndpoints":["8a1b6c1e-0000-4000-8000-000000000001"],"SourceVIP":"10.244.1.254","FrontendVIPs":["10.96.0.10"],"PortMappings":[{"Protocol":6,"InternalPort":8080,"ExternalPort":80,"DistributionType":2,"Flags":16}],"SchemaVersion":{"Major":2,"Minor":0},"Flags":1}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<LoadBalancer>(&text).expect("it can be read"), balancer);
    }

    #[test]
    fn a_remote_endpoint_is_written_as_hns_reads_it() {
        let endpoint = Endpoint {
            policies: vec![Policy::provider_address("192.168.50.2".into())],
            ip_configurations: vec![IpConfiguration { ip_address: "10.244.2.2".into(), prefix_length: 0 }],
            mac_address: "02-11-0a-f4-02-02".into(),
            flags: endpoint_flags::REMOTE,
            ..Endpoint::default()
        };
        let text = serde_json::to_string(&endpoint).expect("it can be written");
        let expected = r#"{"Policies":[{"Type":"ProviderAddress","Settings":{"ProviderAddress":"192.168.50.2"}}],"IpConfigurations":[{"IpAddress":"10.244.2.2"}],"MacAddress":"02-11-0a-f4-02-02","Flags":1,"SchemaVersion":{"Major":2,"Minor":0}}"#;
        assert_eq!(text, expected);
    }

    /// Documents of HNS have many more fields, and policies of many types.
    #[test]
    fn unknown_fields_and_policies_are_skipped() {
        let text = r#"{"ID":"8A1B6C1E-0000-4000-8000-000000000001","Name":"cbr0","Type":"Overlay","MacPool":{"Ranges":[]},
            "Policies":[{"Type":"HostRoute","Settings":null},{"Type":"VSwitchExtension","Settings":{"ExtensionId":"x"}},
            {"Type":"RemoteSubnetRoute","Settings":{"DestinationPrefix":"10.244.2.0/24","IsolationId":4096,
            "ProviderAddress":"192.168.50.2","DistributedRouterMacAddress":"00-15-5d-00-00-01"}}]}"#;
        let network: Network = serde_json::from_str(text).expect("it can be read");
        assert!(network.is_overlay());
        let subnets: Vec<_> = network.remote_subnets().map(|it| (it.destination_prefix, it.provider_address)).collect();
        assert_eq!(subnets, [("10.244.2.0/24".to_owned(), "192.168.50.2".to_owned())]);
    }
}
