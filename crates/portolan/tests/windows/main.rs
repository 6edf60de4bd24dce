//! `portolan.exe` under wine, on the stand-in for HNS of `tests/windows/hns`. `make test-windows` runs this.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[cfg(feature = "cluster")]
mod calls;
#[cfg(feature = "cluster")]
mod compare;
mod life;
mod lookup;
mod machine;
mod process;
#[cfg(feature = "cluster")]
#[path = "../cluster/publish.rs"]
mod publish;
mod questions;
mod refusals;
mod service;
mod waiting;
#[cfg(feature = "cluster")]
mod watching;
