//! `portolan.exe` under wine, on the stand-in for HNS of `tests/windows/hns`. `make test-windows` runs this.

mod life;
mod lookup;
mod machine;
mod questions;
mod refusals;
mod service;
mod waiting;
#[cfg(feature = "cluster")]
mod watching;
