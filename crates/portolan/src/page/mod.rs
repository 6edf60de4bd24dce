//! The answers of the page: from the daemon, or from manifests.
//!
//! | file | idea |
//! |---|---|
//! | `world` | what an answer is made of, in the daemon and without one |
//! | `overview`, `live` | the state of the node in short; what streams send |
//! | `state` | what the daemon keeps for pages |
//! | `meter` | rates from two readings of the counters, read only while a page asks |
//! | `manifests` | a world that follows files |

mod live;
mod manifests;
mod meter;
mod overview;
mod state;
mod world;

use std::sync::{Arc, Mutex};

use portolan_page::{Ask, Question, Reply};

use crate::control::Published;

pub(crate) use manifests::Followed;
pub(crate) use state::Live;
use world::World;

/// The page of the daemon itself.
pub(crate) fn of_daemon(published: Arc<Mutex<Published>>, live: Arc<Live>) -> Ask {
    Arc::new(move |question| answer(question, &published, &live))
}

fn answer(question: &Question, published: &Mutex<Published>, live: &Arc<Live>) -> Reply {
    let world = World::of_daemon(published, live);
    world.and_then(|world| world.answer(question)).unwrap_or_else(|error| Reply::error(500, &format!("{error:#}")))
}
