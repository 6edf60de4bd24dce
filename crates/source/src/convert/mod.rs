//! From Kubernetes objects ([`crate::spec`]) to what is kept of them, with the defaults and checks of an API server.
//!
//! There is one conversion for both sources. [`Reading`](context::Reading) decides how strict it is.

mod assigned;
mod balancing;
mod check;
pub(crate) mod context;
pub(crate) mod endpoints;
mod families;
pub(crate) mod identity;
pub(crate) mod node;
pub(crate) mod pod;
mod request;
mod selection;
pub(crate) mod service;
pub(crate) mod slice;
