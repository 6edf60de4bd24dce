//! A world of manifests, without a daemon. It follows the files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use portolan_dataplane::SyncReport;
use portolan_page::{Ask, Question, Reply};
use portolan_plan::{Plan, plan};
use portolan_source::{Manifests, Watcher};

use super::state::now;
use super::world::World;
use crate::daemon::recorder::Recorder;
use crate::host;
use crate::offline::require_all;
use crate::settings::{QuestionSettings, require_manifests};

/// After an error of the watch.
const PAUSE: Duration = Duration::from_secs(1);

/// The plan of manifests, as the daemon would have it.
pub(crate) struct Followed {
    settings: QuestionSettings,
    paths: Vec<PathBuf>,
    started_unix_ms: u64,
    state: Mutex<State>,
}

struct State {
    manifests: Manifests,
    plan: Plan,
    recorder: Recorder,
}

impl Followed {
    /// Reads the files, and reads them again when they change.
    pub(crate) fn start(settings: QuestionSettings) -> anyhow::Result<Arc<Self>> {
        let paths = settings.manifests.paths.clone();
        require_manifests(&paths)?;
        // Before the first read, so that no change is missed.
        let watcher = Watcher::new(&paths).context("watching the manifests for changes")?;
        let mut options = settings.manifests.clone();
        options.is_read_once = false;
        let state = State { manifests: Manifests::new(options), plan: Plan::default(), recorder: Recorder::default() };
        let followed = Arc::new(Self { settings, paths, started_unix_ms: now(), state: Mutex::new(state) });
        followed.read(Instant::now())?;
        require_all(&followed.state.lock().map_err(|_| anyhow!("reading the manifests has failed"))?.manifests)?;
        let follower = followed.clone();
        thread::Builder::new().name("manifests".into()).spawn(move || follower.follow(watcher))?;
        Ok(followed)
    }

    fn follow(&self, mut watcher: Watcher) {
        loop {
            match watcher.wait(None) {
                Ok(false) => continue,
                Ok(true) => {}
                Err(error) => {
                    eprintln!("portolan: watching the manifests: {error}");
                    thread::sleep(PAUSE);
                }
            }
            if let Err(error) = self.read(Instant::now()) {
                eprintln!("portolan: {error:#}");
            }
        }
    }

    fn read(&self, since: Instant) -> anyhow::Result<()> {
        let mut state = self.state.lock().map_err(|_| anyhow!("reading the manifests has failed"))?;
        for problem in &state.manifests.reload().new_problems {
            eprintln!("portolan: {problem}");
        }
        let mut snapshot = state.manifests.snapshot();
        host::add_addresses(&mut snapshot, &host::addresses(), self.settings.bind_address);
        state.plan = plan(&snapshot, &state.plan, &self.settings.traffic.plan);
        let planned = state.plan.clone();
        state.recorder.note_sync(&planned, &SyncReport::default(), Some(since));
        Ok(())
    }

    pub(crate) fn ask(self: Arc<Self>) -> Ask {
        Arc::new(move |question| self.answer(question).unwrap_or_else(|error| Reply::error(500, &format!("{error:#}"))))
    }

    fn answer(&self, question: &Question) -> anyhow::Result<Reply> {
        let (plan, history) = {
            let state = self.state.lock().map_err(|_| anyhow!("reading the manifests has failed"))?;
            (state.plan.clone(), state.recorder.history())
        };
        let world = World {
            plan,
            traffic: self.settings.traffic.clone(),
            manifests: Some(self.paths.clone()),
            history,
            started_unix_ms: self.started_unix_ms,
            daemon: None,
        };
        world.answer(question)
    }
}
