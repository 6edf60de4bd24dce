//! SHADOW: what kube-proxy has programmed on this node, read as behaviour and held against the plan.
#![forbid(unsafe_code)]
