//! The real program on the lab's node, from start to end.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod affinity;
mod balancing;
mod both_sides;
mod changes;
mod churn;
mod commands;
mod compatibility;
mod control;
mod dns;
mod drift;
mod ebpf;
mod families;
mod files;
mod flows;
mod foreign;
mod hanging;
mod iptables;
mod layouts;
mod life;
mod loopback;
mod moving;
mod names;
mod node;
mod observed;
mod overload;
mod poll;
mod rebalancing;
mod repair;
mod replacement;
mod resets;
mod settings;
mod switching;
mod takeover;
mod traffic;
mod userspace;
