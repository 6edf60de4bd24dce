//! ebpf mode as the rest of the program sees it.

use std::sync::Arc;

use portolan_plan::{Lacks, Limits, Plan};

use super::counts::{self, Counters};
use super::hook_place::HookPlace;
use super::hooks::Hooks;
use super::kernel::read_entries;
use super::namespaces::Namespaces;
use super::places::HookFolder;
use super::watch::HookWatch;
use super::{Ebpf, EbpfKernel, Key, NAME, requirements};
use crate::fake::FakeKernel;
use crate::mode::{ActiveMode, Mode, ModeView, Synchronize, WatchForeignChanges};
use crate::nft::{self, NftablesKernel};
use crate::options::FlagKind;
use crate::place::{Owned, Place};
use crate::requirements::Feature;
use crate::traffic::{CountTraffic, Pair, ReadTraffic, Usage};
use crate::view::View;
use crate::{Difference, Error, Listeners, ModeFlag, ModeSettings, Objects, Observe, Reconciler, SyncReport, Trust};

pub static MODE: EbpfMode = EbpfMode;

pub struct EbpfMode;

const CGROUP: &str = "ebpf-cgroup";
const HOST_ONLY: &str = "ebpf-host-only";
const NAMESPACES: &str = "ebpf-netns-directory";

impl Mode for EbpfMode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tool(&self) -> Option<&'static str> {
        Some("nft list ruleset, bpftool map dump")
    }

    fn missing(&self) -> Option<String> {
        requirements::refused()
    }

    fn features(&self) -> &'static [Feature] {
        requirements::FEATURES
    }

    fn limits(&self) -> Limits {
        Limits { at_connect: true, ..Limits::default() }
    }

    fn limits_with(&self, settings: &ModeSettings) -> Limits {
        let only_node_at_connect = settings.options.boolean(HOST_ONLY);
        Limits { only_node_at_connect, lacks: Lacks(nft::requirements::lacks), ..self.limits() }
    }

    fn flags(&self) -> &'static [ModeFlag] {
        &[
            ModeFlag {
                name: CGROUP,
                help: "In ebpf mode: the cgroup whose processes meet the hooks; empty means all processes of the node",
                default: "",
                kind: FlagKind::Path,
            },
            ModeFlag {
                name: HOST_ONLY,
                help: "In ebpf mode: hooks serve processes in the node's network namespace only, and rules serve pods",
                default: "false",
                kind: FlagKind::Boolean,
            },
            ModeFlag {
                name: NAMESPACES,
                help: "In ebpf mode: where the container runtime keeps the network namespaces of pods. With CAP_SYS_ADMIN, \
                       hooks serve connected UDP sockets of these pods, and leave pods with a service mesh to the rules",
                default: "/run/netns",
                kind: FlagKind::Path,
            },
        ]
    }

    fn describe(&self, settings: &ModeSettings) -> String {
        let cgroup = settings.options.text(CGROUP);
        let cgroup = if cgroup.is_empty() { "the root of cgroup v2" } else { cgroup };
        format!("{}, cgroup: {cgroup}", nft::describe(settings))
    }

    fn open(&self, settings: &ModeSettings) -> Result<Box<dyn ActiveMode>, Error> {
        let rules = NftablesKernel::open()?.with_quick_start();
        let hooks = Hooks::open(HookPlace::find(settings.options.text(CGROUP))?)?;
        let reconciler = Reconciler::new(dataplane(settings), EbpfKernel::new(rules, hooks));
        Ok(Box::new(ActiveEbpf { reconciler, settings: settings.clone(), namespaces: None }))
    }

    fn view(&self, settings: &ModeSettings, _: Option<Arc<Listeners>>) -> Box<dyn ModeView> {
        let cgroup = settings.options.text(CGROUP).to_owned();
        let open = Box::new(move || Ok(Box::new(Reader::open(&cgroup)?) as _));
        Box::new(View { dataplane: dataplane(settings), listing, open })
    }

    fn damage(&self) -> &'static [&'static str] {
        nft::DAMAGE
    }

    fn in_memory(&self, settings: &ModeSettings, fails_one_in: u64, seed: u64) -> Box<dyn Synchronize> {
        Box::new(Reconciler::new(dataplane(settings), FakeKernel::failing(fails_one_in, seed)))
    }

    fn places(&self) -> Vec<Box<dyn Place>> {
        vec![Box::new(HookFolder)]
    }
}

fn dataplane(settings: &ModeSettings) -> Ebpf {
    Ebpf::new(nft::dataplane(settings))
}

/// The rules as `nft` lists them, and the entries of the hooks after them.
fn listing(objects: &Objects<Ebpf>) -> String {
    let rules = nft::listing(&Objects(super::kernel::cloned_rules(&objects.0)));
    let entries = objects.0.iter().filter(|(key, _)| !matches!(key, Key::Rule(_)));
    let entries = entries.map(|(key, value)| format!("{key}{value}\n"));
    rules + &entries.collect::<String>()
}

struct ActiveEbpf {
    reconciler: Reconciler<Ebpf, EbpfKernel>,
    settings: ModeSettings,
    /// From the first time on that the hooks are attached.
    namespaces: Option<Namespaces>,
}

impl ActiveEbpf {
    fn attach(&mut self) -> Result<(), Error> {
        let hooks = &mut self.reconciler.kernel_mut().hooks;
        hooks.attach()?;
        if self.namespaces.is_none() {
            let folder = self.settings.options.text(NAMESPACES);
            self.namespaces = Some(Namespaces::start(folder, hooks.maps(), hooks.ending()?)?);
        }
        Ok(())
    }
}

impl Synchronize for ActiveEbpf {
    fn read_ahead(&mut self) -> Result<(), Error> {
        self.reconciler.read_ahead()
    }

    /// The hooks are attached once the maps hold what the rules do. Where they cannot be, the rules serve alone.
    fn sync(&mut self, plan: &Plan, trust: Trust) -> Result<SyncReport, Error> {
        let mut report = self.reconciler.sync(plan, trust)?;
        if (report.full || !self.reconciler.kernel().hooks.is_loaded())
            && let Err(error) = self.attach()
        {
            report.failure.get_or_insert(format!("the rules serve without hooks: {error}"));
        }
        if self.reconciler.kernel_mut().take_changed_udp() {
            self.namespaces.iter().for_each(Namespaces::end_sockets);
        }
        Ok(report)
    }

    fn verify(&mut self, plan: &Plan) -> Result<Difference, Error> {
        self.reconciler.verify(plan)
    }
}

impl ActiveMode for ActiveEbpf {
    fn use_settings(&mut self, settings: &ModeSettings) -> Result<(), Error> {
        if !nft::is_same(settings, &self.settings) {
            self.reconciler.use_dataplane(dataplane(settings));
            self.settings = settings.clone();
        }
        Ok(())
    }

    fn owned(&self) -> Owned {
        Owned::with_table(NAME)
    }

    fn watch(&mut self) -> Result<Box<dyn WatchForeignChanges>, Error> {
        let kernel = self.reconciler.kernel();
        let table = nft::watch(&kernel.rules)?;
        Ok(Box::new(HookWatch::new(table, kernel.hooks.place().clone(), kernel.hooks.attached())))
    }

    fn traffic_reader(&self) -> Result<Box<dyn ReadTraffic>, Error> {
        Ok(Box::new(Counters::open(self.reconciler.kernel().hooks.place().clone())?))
    }

    fn forget_counts(&mut self, pairs: &[(Pair, Usage)]) -> Result<(), Error> {
        if let Some(plan) = self.reconciler.plan() {
            counts::forget(&self.reconciler.kernel().hooks, plan, pairs)?;
        }
        self.reconciler.kernel_mut().rules.forget_counts(pairs)
    }

    fn unaccelerated_frontends(&self) -> usize {
        self.reconciler.kernel().unaccelerated()
    }
}

/// The kernel for reading alone: nothing is created.
struct Reader {
    rules: NftablesKernel,
    hooks: Option<Hooks>,
}

impl Reader {
    fn open(cgroup: &str) -> Result<Self, Error> {
        let hooks = Hooks::open_existing(HookPlace::find(cgroup)?)?;
        Ok(Self { rules: NftablesKernel::open()?, hooks })
    }
}

impl Observe<Ebpf> for Reader {
    fn read(&mut self) -> Result<Objects<Ebpf>, Error> {
        let rules = self.rules.read()?;
        let mut objects = Objects(super::with_rules(rules.0, []).collect());
        self.hooks.iter().try_for_each(|hooks| read_entries(hooks, &mut objects))?;
        Ok(objects)
    }

    fn is_undisturbed(&mut self) -> Result<bool, Error> {
        self.rules.is_undisturbed()
    }

    fn serves(&self, family: portolan_model::Family) -> bool {
        self.rules.serves(family)
    }
}
