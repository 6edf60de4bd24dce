//! The page in a real browser.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
