//! The primitives of `published`. Its model test compiles that file with those of loom in their place.

pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::AtomicU64;
