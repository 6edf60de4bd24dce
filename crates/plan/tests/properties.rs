//! Whatever happened before, the plan is as though only the last state had ever been.

mod history;

use std::sync::Arc;

use history::{beginning, config, happen, history};
use portolan_plan::{Limits, Plan, PlanConfig, plan};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_incremental_plan_equals_one_from_scratch(history in history()) {
        let (mut snapshot, mut last) = (beginning(), Plan::default());
        for happening in &history {
            happen(&mut snapshot, happening);
            last = plan(&snapshot, &last, &config());
            prop_assert!(last == plan(&snapshot, &Plan::default(), &config()));
        }
    }

    #[test]
    fn so_it_is_with_virtual_servers(history in history()) {
        let config = PlanConfig { limits: Limits { virtual_servers: true, ..Limits::default() }, ..config() };
        let (mut snapshot, mut last) = (beginning(), Plan::default());
        for happening in &history {
            happen(&mut snapshot, happening);
            last = plan(&snapshot, &last, &config);
            prop_assert!(last == plan(&snapshot, &Plan::default(), &config));
        }
    }

    #[test]
    fn planning_again_changes_nothing(history in history()) {
        let mut snapshot = beginning();
        history.iter().for_each(|happening| happen(&mut snapshot, happening));
        let first = plan(&snapshot, &Plan::default(), &config());
        let second = plan(&snapshot, &first, &config());
        prop_assert!(first.services.values().zip(second.services.values()).all(|(a, b)| Arc::ptr_eq(a, b)));
    }
}
