//! The tools of the tests: the lab, its load generator and the reader of scenario files.

mod lab;
mod load;
mod scenario;
