//! Whatever happened before, the plan is as though only the last state had ever been.

mod history;

use std::sync::Arc;

use history::random::check;
use history::{Happening, beginning, config, happen};
use portolan_plan::{Limits, LoadBalancers, Plan, PlanConfig, plan};

const CASES: u32 = 2000;

fn equals_one_from_scratch(history: &[Happening], config: &PlanConfig) {
    let (mut snapshot, mut last) = (beginning(), Plan::default());
    for happening in history {
        happen(&mut snapshot, happening);
        last = plan(&snapshot, &last, config);
        assert!(last == plan(&snapshot, &Plan::default(), config), "the plan differs from one from scratch");
    }
}

#[test]
fn an_incremental_plan_equals_one_from_scratch() {
    check(CASES, |history, _| equals_one_from_scratch(history, &config()));
}

#[test]
fn so_it_is_with_virtual_servers() {
    let config = PlanConfig { limits: Limits { virtual_servers: true, ..Limits::default() }, ..config() };
    check(CASES, |history, _| equals_one_from_scratch(history, &config));
}

#[test]
fn so_it_is_with_load_balancers() {
    let load_balancers = Some(LoadBalancers::default());
    let config = PlanConfig { limits: Limits { load_balancers, ..Limits::default() }, ..config() };
    check(CASES, |history, _| equals_one_from_scratch(history, &config));
}

#[test]
fn planning_again_changes_nothing() {
    check(CASES, |history, _| {
        let mut snapshot = beginning();
        history.iter().for_each(|happening| happen(&mut snapshot, happening));
        let first = plan(&snapshot, &Plan::default(), &config());
        let second = plan(&snapshot, &first, &config());
        assert!(first.services.values().zip(second.services.values()).all(|(a, b)| Arc::ptr_eq(a, b)));
    });
}
