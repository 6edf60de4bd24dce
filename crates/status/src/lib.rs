//! STATUS: health, metrics and debugging pages, over HTTP.
#![forbid(unsafe_code)]
