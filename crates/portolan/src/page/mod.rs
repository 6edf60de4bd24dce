//! The answers of the page: from the daemon, or from manifests.
//!
//! | file | idea |
//! |---|---|
//! | `world` | what an answer is made of, in the daemon and without one |
//! | `overview`, `live` | the state of the node in short; what streams send |
//! | `meter` | rates from two readings of the counters, read only while a page asks |
//! | `manifests` | a world that follows files |

mod live;
mod manifests;
mod meter;
mod overview;
mod world;

use std::sync::{Arc, Mutex};

use portolan_page::{Ask, Question, Reply};

use crate::control::Published;

pub(crate) use live::Live;
pub(crate) use manifests::Followed;
use world::World;

/// The page of the daemon itself.
pub(crate) fn of_daemon(published: Arc<Mutex<Published>>) -> Ask {
    Arc::new(move |question| answer(question, &published))
}

pub(crate) fn answer(question: &Question, published: &Mutex<Published>) -> Reply {
    let world = World::of_daemon(published);
    world.and_then(|world| world.answer(question)).unwrap_or_else(|error| Reply::error(500, &format!("{error:#}")))
}
