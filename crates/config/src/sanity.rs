//! Warnings about settings that are valid but probably unintended.

use ipnet::IpNet;

use crate::document::Document;
use crate::lenient::parse_range;
use crate::notice::Notice;

pub(crate) fn notices(document: &Document) -> Vec<Notice> {
    node_ports_of_one_family(document).into_iter().collect()
}

/// Pods of both families, but node ports of one.
fn node_ports_of_one_family(document: &Document) -> Option<Notice> {
    let items = document.list("nodePortAddresses");
    let ranges: Vec<IpNet> = items.iter().filter_map(|item| parse_range(item)).collect();
    let has_keyword = ranges.len() < items.len();
    let pods: Vec<IpNet> = document.text("clusterCIDR").split(',').filter_map(|it| parse_range(it.trim())).collect();
    let is_dual = |ranges: &[IpNet]| ranges.iter().any(is_v6) && !ranges.iter().all(is_v6);
    if has_keyword || ranges.is_empty() || is_dual(&ranges) || !is_dual(&pods) {
        return None;
    }
    let (served, other) = if is_v6(&ranges[0]) { ("IPv6", "IPv4") } else { ("IPv4", "IPv6") };
    let place = document.place("nodePortAddresses");
    Some(Notice::warning(format!("{place}: node ports are served on {served} only, though pods are on {other} too")))
}

fn is_v6(range: &IpNet) -> bool {
    matches!(range, IpNet::V6(_))
}
