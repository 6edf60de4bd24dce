//! `portolan.exe` under wine, on the stand-in for HNS of `tests/windows/hns`. `make test-windows` runs this.

mod life;
mod machine;
mod questions;
#[cfg(feature = "cluster")]
mod watching;
