//! Netlink, nf_tables, conntrack, IP sets, addresses and BPF in the real kernel, each test in a network namespace of its own.

mod addresses;
mod batch;
mod bpf;
mod common;
mod conntrack;
mod disturbed;
mod elements;
mod expressions;
mod expressions_ipv6;
mod ipset;
mod lookup;
mod malformed;
mod monitor;
mod trial;
