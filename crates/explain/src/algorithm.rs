//! How new connections of a Service port are shared among its endpoints, in words.

use portolan_model::{Algorithm, HashOf};
use portolan_plan::{Balance, Selection};

/// `None` where neither the Service nor the operator asks for an algorithm.
pub(crate) fn name(balance: &Balance) -> Option<String> {
    let algorithm = balance.algorithm?;
    let of = match balance.selection() {
        Selection::ByHash(HashOf::ClientAndPort) => " of client and port",
        _ => "",
    };
    Some(format!("{}{of}", algorithm.name()))
}

/// What is asked for, where the mode does not have it.
pub(crate) fn lacking(balance: &Balance) -> Option<String> {
    balance.lacking.map(|algorithm| algorithm.name().to_owned())
}

pub(crate) fn note(balance: &Balance) -> Option<String> {
    let (asked, used) = (balance.lacking?.name(), balance.algorithm.unwrap_or(Algorithm::Random).name());
    Some(format!("this mode does not have the algorithm {asked}, and uses {used}"))
}
