//! A Service as the objects of every mode, as the mode's own tool prints them.
//!
//! Which lines belong to which part is found by changing that part: the lines of a listing that differ when an endpoint has
//! another address are those of the endpoint. So nothing here depends on the mode, and a new mode is shown like the others.
//!
//! | file | idea |
//! |---|---|
//! | `lines` | a listing as lines, each with the blocks around it |
//! | `variants` | plans in which one part is different |
//! | `excerpt` | the lines of the Service, without those that every node has |

mod excerpt;
mod lines;
mod variants;

use portolan_dataplane::mode::{Mode, ModeView};
use portolan_dataplane::modes;
use portolan_model::{ServiceName, Snapshot};
use portolan_plan::{Plan, PlanConfig, plan};
use serde::Serialize;

use crate::known::Known;
use crate::picture::ServiceAnswer;
use excerpt::{ListedLine, all, excerpt};
use lines::Listing;
use variants::{Variant, variants};

#[derive(Clone, Debug, Serialize)]
pub struct ModesAnswer {
    pub name: String,
    pub active: &'static str,
    pub modes: Vec<ModeListing>,
}

#[derive(Clone, Debug, Serialize)]
pub struct ModeListing {
    pub mode: &'static str,
    pub is_active: bool,
    /// The first tool whose output it is, where the listing says so.
    pub tool: Option<String>,
    /// Why this machine cannot run the mode.
    pub missing: Option<String>,
    pub lines: Vec<ListedLine>,
}

impl Known<'_> {
    pub fn modes(&self, name: &str, is_full: bool) -> Result<ModesAnswer, String> {
        let name = self.find(name)?;
        let service = self.plan.facts().services.get(&name).ok_or("the Service is gone")?;
        let picture = self.picture(service);
        let listing = |mode: &&'static dyn Mode| self.listing(*mode, &name, &picture, is_full);
        let modes = modes::ALL.iter().map(listing).collect();
        Ok(ModesAnswer { name: name.to_string(), active: self.mode.name(), modes })
    }

    fn listing(&self, mode: &'static dyn Mode, name: &ServiceName, picture: &ServiceAnswer, full: bool) -> ModeListing {
        let view = mode.view(self.mode_settings, None);
        let config = PlanConfig { limits: mode.limits_with(self.mode_settings), ..self.config.clone() };
        let alone = plan(&alone(self.plan.facts(), name), &Plan::default(), &config);
        let mut without = alone.clone();
        without.services.clear();
        let (listing, base) = (rendered(&*view, &alone), rendered(&*view, &without));
        let of_service = listing.lines_that_differ(&base);
        let mut tags = vec![Vec::new(); listing.lines.len()];
        for Variant { id, plans, word } in variants(&alone, picture) {
            let differing = plans.iter().map(|plan| listing.lines_that_differ(&rendered(&*view, plan)));
            let mut lines = differing.into_iter().find(|lines| !lines.is_empty()).unwrap_or_default();
            lines.extend(word.iter().flat_map(|word| listing.lines_with(word, &of_service)));
            lines.sort_unstable();
            lines.dedup();
            lines.into_iter().for_each(|line| tags[line].push(id.clone()));
        }
        ModeListing {
            mode: mode.name(),
            is_active: mode == self.mode,
            tool: mode.tool().or_else(|| listing.lines.first()?.text.strip_prefix("# ")).map(str::to_owned),
            missing: mode.missing(),
            lines: if full { all(&listing, &tags, &of_service) } else { excerpt(&listing, &tags, &of_service) },
        }
    }
}

fn rendered(view: &dyn ModeView, plan: &Plan) -> Listing {
    Listing::parse(&view.render(plan).listing)
}

/// The facts with one Service.
fn alone(facts: &Snapshot, name: &ServiceName) -> Snapshot {
    let mut alone =
        Snapshot { node: facts.node.clone(), service_ranges: facts.service_ranges.clone(), ..Snapshot::default() };
    alone.services.extend(facts.services.get(name).map(|it| (name.clone(), it.clone())));
    alone.slices.extend(facts.slices.get(name).map(|it| (name.clone(), it.clone())));
    alone.observed.extend(facts.observed.get(name).map(|it| (name.clone(), it.clone())));
    alone
}
