//! nftables mode: the rules of `nft`, and nothing else.

mod leftovers;
mod mode;

pub use mode::MODE;

/// As in `--proxy-mode`.
const NAME: &str = "nftables";
