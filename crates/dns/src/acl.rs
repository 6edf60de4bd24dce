//! Access control: which clients may ask for what.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::wire::Name;

/// One list of rules for some zones. The first rule that matches decides; without one, the query is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    pub zones: Vec<Name>,
    /// Zones below them that the rules are not for.
    pub except: Vec<Name>,
    pub rules: Vec<AclRule>,
}

/// Empty lists match everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclRule {
    pub action: AclAction,
    pub kinds: Vec<u16>,
    pub networks: Vec<IpNet>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AclAction {
    Allow,
    /// The response is REFUSED.
    Block,
    /// The response is NOERROR without records.
    Filter,
    /// There is no response.
    Drop,
}

/// Every list must allow the query.
pub(crate) fn decide(lists: &[Acl], name: &Name, kind: u16, client: IpAddr) -> AclAction {
    let decisions = lists.iter().filter(|acl| acl.is_for(name)).map(|acl| acl.decide(kind, client));
    decisions.into_iter().find(|action| *action != AclAction::Allow).unwrap_or(AclAction::Allow)
}

impl Acl {
    fn is_for(&self, name: &Name) -> bool {
        let is_within = |zones: &[Name]| zones.iter().any(|zone| name.is_within(zone));
        (self.zones.is_empty() || is_within(&self.zones)) && !is_within(&self.except)
    }

    fn decide(&self, kind: u16, client: IpAddr) -> AclAction {
        let client = client.to_canonical();
        let matches = |rule: &&AclRule| {
            (rule.kinds.is_empty() || rule.kinds.contains(&kind))
                && (rule.networks.is_empty() || rule.networks.iter().any(|network| network.contains(&client)))
        };
        self.rules.iter().find(matches).map_or(AclAction::Allow, |rule| rule.action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::kind;

    fn rule(action: AclAction, kinds: &[u16], networks: &[&str]) -> AclRule {
        let networks = networks.iter().map(|it| it.parse().unwrap()).collect();
        AclRule { action, kinds: kinds.to_vec(), networks }
    }

    #[test]
    fn the_first_matching_rule_of_the_zone_decides() {
        let name = |text: &str| Name::from_text(text).unwrap();
        let lists = [
            Acl {
                zones: vec![Name::ROOT],
                except: vec![name("corp.example")],
                rules: vec![
                    rule(AclAction::Filter, &[kind::TXT], &[]),
                    rule(AclAction::Allow, &[], &["10.0.0.0/8", "fd00::/8"]),
                    rule(AclAction::Block, &[], &[]),
                ],
            },
            Acl {
                zones: vec![name("corp.example")],
                except: vec![],
                rules: vec![rule(AclAction::Drop, &[], &["10.1.0.0/16"])],
            },
        ];
        for (asked, kind, client, expected) in [
            ("www.example", kind::A, "10.2.3.4", AclAction::Allow),
            ("www.example", kind::A, "fd00::1", AclAction::Allow),
            ("www.example", kind::TXT, "10.2.3.4", AclAction::Filter),
            ("www.example", kind::A, "192.0.2.1", AclAction::Block),
            ("a.corp.example", kind::TXT, "192.0.2.1", AclAction::Allow),
            ("a.corp.example", kind::A, "10.1.2.3", AclAction::Drop),
            ("a.corp.example", kind::A, "::ffff:10.1.2.3", AclAction::Drop),
        ] {
            assert_eq!(decide(&lists, &name(asked), kind, client.parse().unwrap()), expected, "{asked} {client}");
        }
    }
}
