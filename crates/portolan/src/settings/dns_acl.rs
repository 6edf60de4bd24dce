//! Access control lists of the DNS server.

use std::net::IpAddr;

use anyhow::{Context, bail};
use ipnet::IpNet;
use portolan_config::{AclDocument, AclRuleDocument};
use portolan_dns::wire::{Name, kind};
use portolan_dns::{Acl, AclAction, AclRule};

pub(super) fn acl(document: &AclDocument) -> anyhow::Result<Acl> {
    let names = |texts: &[String]| -> anyhow::Result<Vec<Name>> {
        texts
            .iter()
            .map(|text| Name::from_text(text).with_context(|| format!("acl: {text:?} is not a domain")))
            .collect()
    };
    Ok(Acl {
        zones: names(&document.zones)?,
        except: names(&document.except)?,
        rules: document.rules.iter().map(rule).collect::<Result<_, _>>()?,
    })
}

fn rule(document: &AclRuleDocument) -> anyhow::Result<AclRule> {
    let action = match document.action.as_str() {
        "allow" => AclAction::Allow,
        "block" => AclAction::Block,
        "filter" => AclAction::Filter,
        "drop" => AclAction::Drop,
        other => bail!("acl: action {other:?}: write allow, block, filter or drop"),
    };
    let kind = |text: &String| kind::from_name(text).with_context(|| format!("acl: {text:?} is not a record type"));
    Ok(AclRule {
        action,
        kinds: document.types.iter().map(kind).collect::<Result<_, _>>()?,
        networks: document.networks.iter().map(|text| network(text)).collect::<Result<_, _>>()?,
    })
}

fn network(text: &str) -> anyhow::Result<IpNet> {
    let one = || text.parse::<IpAddr>().ok().map(IpNet::from);
    text.parse().ok().or_else(one).with_context(|| format!("acl: {text:?} is not an address or a range"))
}
