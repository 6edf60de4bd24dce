//! CONFIGURATION: kube-proxy's flags and file, with its defaults and its checks.
#![forbid(unsafe_code)]
