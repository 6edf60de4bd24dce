//! The mode of Windows nodes on an HNS in memory: what it leaves after failures and deaths, and how many calls it makes.

use std::collections::BTreeMap;

use portolan_dataplane::kernelspace::{InMemory, Settings};
use portolan_dataplane::mode::{Mode, Synchronize};
use portolan_dataplane::{ModeSettings, Trust, kernelspace};
use portolan_hns::{Habits, MemoryHns, Version};
use portolan_plan::{Plan, PlanConfig, plan};

use crate::history::random::check;
use crate::history::{Happening, beginning, config, happen};
use crate::play::cases;

/// A recent HNS, one that cannot modify, one that does not say so, and one that chooses identities by itself.
const HABITS: [Habits; 4] = [
    Habits { version: Version::MODIFIES, ignores_identities: false, lacks_modification: false },
    Habits { version: Version::OLDEST, ignores_identities: false, lacks_modification: false },
    Habits { version: Version::MODIFIES, ignores_identities: false, lacks_modification: true },
    Habits { version: Version::MODIFIES, ignores_identities: true, lacks_modification: false },
];

fn settings(is_overlay: bool) -> Settings {
    let source_vip = is_overlay.then(|| "10.244.1.254".parse().expect("an address"));
    Settings { network: "cbr0".into(), source_vip, is_overlay, ..Settings::read(&ModeSettings::default()) }
}

/// What HNS holds, with addresses instead of identities.
fn content(hns: &MemoryHns) -> BTreeMap<String, String> {
    let (endpoints, balancers) = hns.held();
    let addresses: BTreeMap<_, String> = endpoints
        .iter()
        .filter_map(|it| {
            let addresses: Vec<&str> = it.ip_configurations.iter().map(|ip| &*ip.ip_address).collect();
            Some((it.id?, format!("{} remote: {}", addresses.join(" "), it.is_remote())))
        })
        .collect();
    let mut content: BTreeMap<String, String> =
        endpoints.iter().zip(addresses.values()).map(|(it, text)| (text.clone(), format!("{:?}", it.policies))).collect();
    assert_eq!(content.len(), endpoints.len(), "no two endpoints have the same address");
    for mut balancer in balancers {
        let mut targets: Vec<String> = balancer
            .host_compute_endpoints
            .iter()
            .map(|id| addresses.get(id).cloned().unwrap_or_else(|| "dangling".into()))
            .collect();
        targets.sort();
        let key = format!("{:?} {:?} {}", balancer.frontend_vips, balancer.port_mappings, balancer.flags & 2);
        (balancer.id, balancer.host_compute_endpoints) = (None, Vec::new());
        let former = content.insert(key, format!("{balancer:?} to {targets:?}"));
        assert_eq!(former, None, "no two load balancers have the same front end");
    }
    content
}

fn until_synced(kernel: &mut InMemory, plan: &Plan) {
    let mut works = |_: &u32| kernel.sync(plan, Trust::Memory).is_ok_and(|report| report.failure.is_none());
    assert!((0..100).any(|attempt| works(&attempt)), "a hundred syncs failed");
}

fn check_history(history: &[Happening], random: u64, is_overlay: bool) {
    let mode: &dyn Mode = &kernelspace::MODE;
    let config = PlanConfig { limits: mode.limits(), ..config() };
    let habits = HABITS[(random % 4) as usize];
    let mut kernel = InMemory::new(settings(is_overlay), habits, 10, random);
    let (mut snapshot, mut last) = (beginning(), Plan::default());
    for happening in history {
        happen(&mut snapshot, happening);
        last = plan(&snapshot, &last, &config);
        until_synced(&mut kernel, &last);
        let mut fresh = InMemory::new(settings(is_overlay), habits, 0, 1);
        until_synced(&mut fresh, &last);
        assert_eq!(content(kernel.hns()), content(fresh.hns()), "{habits:?} after {happening:?}");
    }
}

/// One call in ten fails, before or after its effect, and now and then the daemon dies between two calls.
#[test]
fn whatever_fails_hns_ends_up_with_what_a_fresh_start_has() {
    check(cases(200), |history, random| check_history(history, random, false));
}

#[test]
fn so_it_is_on_an_overlay() {
    check(cases(200), |history, random| check_history(history, random, true));
}
