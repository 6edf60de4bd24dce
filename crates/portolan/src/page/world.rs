//! What an answer is made of.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::anyhow;
use portolan_explain::{Names, PathAnswer, PathQuestion};
use portolan_page::{Known, Question, Reply, Usage};
use portolan_plan::{Plan, PortKey};
use serde::Serialize;

use super::state::Live;
use crate::control::{Current, Published};
use crate::daemon::history::History;
use crate::daemon::traffic::read_with;
use crate::settings::{DOMAIN, Facts, TrafficSettings};

pub(super) struct World<'a> {
    pub(super) plan: Plan,
    pub(super) traffic: TrafficSettings,
    pub(super) manifests: Option<Vec<PathBuf>>,
    pub(super) history: Arc<Mutex<History>>,
    pub(super) started_unix_ms: u64,
    /// The daemon that this is the world of, and what it measures.
    pub(super) daemon: Option<(&'a Mutex<Published>, Arc<Live>)>,
}

/// Connections and bytes of a Service's endpoints.
type Totals = BTreeMap<(PortKey, SocketAddr), Usage>;

impl<'a> World<'a> {
    /// Also before the first sync, when the plan is empty.
    pub(super) fn of_daemon(published: &'a Mutex<Published>, live: &Arc<Live>) -> anyhow::Result<Self> {
        let held = published.lock().map_err(|_| anyhow!("the daemon has failed"))?;
        let manifests = match &held.settings.facts {
            Facts::Manifests(options) => Some(options.paths.clone()),
            Facts::Cluster(_) => None,
        };
        Ok(Self {
            plan: held.plan.clone().unwrap_or_default(),
            traffic: held.settings.traffic.clone(),
            manifests,
            history: held.history.clone(),
            started_unix_ms: live.started_unix_ms,
            daemon: Some((published, live.clone())),
        })
    }

    pub(super) fn history(&self) -> anyhow::Result<MutexGuard<'_, History>> {
        self.history.lock().map_err(|_| anyhow!("the daemon has failed"))
    }

    pub(super) fn known<'k>(&'k self, usage: &'k UsageOf<'k>) -> anyhow::Result<Known<'k>> {
        Ok(Known {
            plan: &self.plan,
            config: &self.traffic.plan,
            mode: self.traffic.mode,
            mode_settings: &self.traffic.mode_settings,
            manifests: self.manifests.as_deref(),
            change: self.history()?.newest(),
            usage,
        })
    }

    pub(super) fn answer(&self, question: &Question) -> anyhow::Result<Reply> {
        let unknown = |_: &PortKey, _| None;
        let known = self.known(&unknown)?;
        Ok(match question {
            Question::Overview => Reply::of(&self.overview()?),
            Question::Services => Reply::of(&known.rows()),
            Question::Service { name } => self.service(name)?,
            Question::Modes { name, full } => found(known.modes(name, *full)),
            Question::Explain { .. } => self.explain(question)?,
            Question::Candidates { text, for_destination, limit } => {
                Reply::of(&known.candidates(text, *for_destination, *limit))
            }
            Question::Changes { after, limit } => Reply::of(&self.history()?.after(*after, *limit)),
            Question::Live { after, reading, services } => Reply::of(&self.live(*after, *reading, services)?),
            Question::Verify => self.of_kernel(|current| current.verify()),
            Question::Connections { service, limit } => {
                self.of_kernel(|current| current.connections(service.as_deref(), *limit))
            }
        })
    }

    fn service(&self, name: &str) -> anyhow::Result<Reply> {
        let totals = self.totals(name).unwrap_or_default();
        let usage = |key: &PortKey, socket| totals.as_ref()?.get(&(key.clone(), socket)).copied();
        Ok(found(self.known(&usage)?.service(name)))
    }

    /// `None` where nothing is counted.
    fn totals(&self, name: &str) -> anyhow::Result<Option<Totals>> {
        let Some((published, live)) = &self.daemon else { return Ok(None) };
        read_with(published, live.events(), |sample| {
            let of_service = sample.services.iter().filter(|(key, _)| key.name.service.to_string() == name);
            let each = of_service.flat_map(|(key, traffic)| traffic.endpoints.iter().map(move |it| (key, it)));
            let total = |(key, (socket, usage)): (&PortKey, (&SocketAddr, &portolan_dataplane::traffic::Usage))| {
                let bytes = usage.requests.bytes + usage.replies.bytes;
                ((key.clone(), *socket), Usage { connections: usage.connections, bytes })
            };
            each.map(total).collect()
        })
    }

    fn explain(&self, question: &Question) -> anyhow::Result<Reply> {
        let Some(question) = question.path() else { return Ok(Reply::error(400, "this is no question about a path")) };
        let outcome = match &self.daemon {
            Some((published, _)) => Current::of(published)?.path(&question),
            None => self.planned_path(&question),
        };
        Ok(outcome.map_or_else(|mistake| Reply::error(400, &format!("{mistake:#}")), |answer| Reply::of(&answer)))
    }

    fn planned_path(&self, question: &PathQuestion) -> anyhow::Result<PathAnswer> {
        let names = Names { plan: &self.plan, domain: DOMAIN, node: &|_| Vec::new() };
        let paths = question.paths(&names).map_err(|mistake| anyhow!(mistake))?;
        let view = self.traffic.mode.view(&self.traffic.mode_settings, None);
        let met = view.trace_all(&self.plan, &paths.packets());
        Ok(PathAnswer::of(&self.plan, &paths, &met, "the objects that would be programmed"))
    }

    fn of_kernel<T: Serialize>(&self, answer: impl FnOnce(&Current) -> anyhow::Result<T>) -> Reply {
        let Some((published, _)) = &self.daemon else {
            return Reply::error(400, "there is no running daemon behind this page: it shows manifests");
        };
        let outcome = Current::of(published).and_then(|current| answer(&current));
        outcome.map_or_else(|error| Reply::error(400, &format!("{error:#}")), |answer| Reply::of(&answer))
    }
}

pub(super) type UsageOf<'a> = dyn Fn(&PortKey, SocketAddr) -> Option<Usage> + 'a;

fn found<T: Serialize>(answer: Result<T, String>) -> Reply {
    answer.map_or_else(|missing| Reply::error(404, &missing), |answer| Reply::of(&answer))
}
