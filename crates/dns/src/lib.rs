//! NAMES: cluster DNS from the same snapshot that programs the rules.
//!
//! `Snapshot → Zone → answer` is pure: [`zone`] says what a name stands for, [`answer`] what to tell about it, [`wire`]
//! how that is written.
#![forbid(unsafe_code)]

pub mod answer;
pub mod wire;
pub mod zone;
