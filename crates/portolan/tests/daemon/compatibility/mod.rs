//! Every flag and every field of kube-proxy: accepted, with the effect that docs/compatibility.md documents.

mod effects;
mod lines;
mod page;
