//! What texts mean, and how those without a meaning are refused.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod anything;
mod documents;
mod errors;
mod meaning;
