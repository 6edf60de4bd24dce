//! A Host Networking Service for tests, as the two libraries that programs load: one file, under both names.
//!
//! The rules by which it accepts and refuses are those of [`portolan_hns::MemoryHns`]. Its state is in the folder that `HNS_STATE`
//! names, so that it outlives processes and tests can read and write it: see [`state::State`]. Every call is a line of `calls.log`.

mod calls;
mod documents;
mod state;
mod text;
