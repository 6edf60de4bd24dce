//! Addresses as labels: `1-2-3-4`, `5678-abcd--1`.

use std::net::IpAddr;

use portolan_model::SliceEndpoint;

/// A label must not end in a hyphen.
pub fn dashed(address: IpAddr) -> String {
    let mut text = address.to_string().replace(['.', ':'], "-");
    if text.ends_with('-') {
        text.push('0');
    }
    text
}

/// Three single hyphens make an IPv4 address; everything else is IPv6 or invalid.
pub fn from_dashed(label: &str) -> Option<IpAddr> {
    let is_v4 = label.bytes().filter(|byte| *byte == b'-').count() == 3 && !label.contains("--");
    let text = label.replace('-', if is_v4 { "." } else { ":" });
    let address: IpAddr = text.parse().ok()?;
    (address.is_ipv4() == is_v4).then_some(address)
}

/// The label of an endpoint.
pub(crate) fn label(endpoint: &SliceEndpoint) -> String {
    match endpoint.hostname() {
        Some(hostname) => hostname.to_string(),
        None => dashed(endpoint.address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_labels_stand_for_each_other() {
        for (address, label) in [
            ("1.2.3.4", "1-2-3-4"),
            ("5678:abcd::1", "5678-abcd--1"),
            ("fd00::", "fd00--0"),
            ("::1", "--1"),
            ("::ffff:1.2.3.4", "--ffff-1-2-3-4"),
        ] {
            assert_eq!(dashed(address.parse().unwrap()), label);
        }
        for (label, address) in
            [("1-2-3-4", Some("1.2.3.4")), ("fd00--0", Some("fd00::")), ("1-2-3", None), ("a-b-c-d", None), ("", None)]
        {
            assert_eq!(from_dashed(label), address.map(|it| it.parse().unwrap()), "{label}");
        }
    }
}
