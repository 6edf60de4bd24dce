//! Configuration files: the Corefile, the YAML file of DNS, and KubeProxyConfiguration.

use portolan_config::{DnsDocument, Given, from_corefile, from_file};

pub(crate) fn corefile(bytes: &[u8]) {
    _ = from_corefile("Corefile", &String::from_utf8_lossy(bytes));
}

pub(crate) fn dns_configuration(bytes: &[u8]) {
    _ = DnsDocument::from_yaml("dns.yaml", &String::from_utf8_lossy(bytes));
}

/// A configuration that is accepted can be written and read again, with the same result.
pub(crate) fn kube_proxy_configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(read) = from_file("config.yaml", &text, &Given::default()) else { return };
    let written = read.document.to_yaml();
    let again = from_file("config.yaml", &written, &Given::default());
    let again = again.unwrap_or_else(|errors| panic!("{errors}\n{written}"));
    assert_eq!(again.document.to_yaml(), written);
}
