//! The hooks in the kernel: maps, programs and links, all pinned, so that they work while no daemon runs.
//!
//! ```text
//! /sys/fs/bpf/portolan/<network namespace>/
//!     maps-<layout>/<map>      another layout gets maps of its own, beside the old ones
//!     cgroup                   a symbolic link to the cgroup that the programs are attached to
//!     links/<program>          a new program replaces the old one in its link, and no connection is missed
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use portolan_kernel::bpf::{Cgroup, Link, Map, MapDefinition, Object, Program, SocketIterator};

use super::attached::Attached;
use super::claim::{Claim, remove_abandoned};
use super::hook_place::HookPlace;
use super::objects::MapName;
use super::pins::{create_folder, failure, mount_if_missing, remove_pin, replace_pin};
use super::programs::{self, Loaded, constants, layout, object};
use super::{clients, former};
use crate::Error;

/// The maps, opened, and the programs over them.
pub(super) struct Hooks {
    place: HookPlace,
    /// Only of a process that writes.
    claim: Option<Claim>,
    object: Object,
    maps: Arc<Maps>,
    /// Used instead of the map of few clients, if this process has replaced it.
    clients: Option<Map>,
    /// The loaded programs by their names; empty until they are attached.
    programs: BTreeMap<String, Loaded>,
    attached: Attached,
    /// Ends connected UDP sockets whose endpoint is gone; `None` before the programs are loaded, and on kernels without it.
    ending: Option<Program>,
}

/// The open maps by their names.
pub(super) type Maps = BTreeMap<String, Map>;

impl Hooks {
    /// Opens the pinned maps, or creates them. Nothing is attached yet.
    pub(super) fn open(place: HookPlace) -> Result<Self, Error> {
        Self::with_room(place, u32::MAX)
    }

    /// The same with at most so many entries in each map that this mode writes.
    pub(super) fn with_room(place: HookPlace, most: u32) -> Result<Self, Error> {
        mount_if_missing()?;
        let mut object = object()?;
        let is_written = |name: &str| MapName::ALL.iter().any(|map| map.name() == name);
        for map in object.maps.iter_mut().filter(|map| is_written(&map.name)) {
            map.max_entries = map.max_entries.min(most);
        }
        remove_abandoned();
        let claim = Claim::make(&place.folder())?;
        let folder = place.maps(layout(&object));
        create_folder(&folder)?;
        create_folder(&place.links())?;
        place.note_cgroup()?;
        let mut maps = Maps::new();
        for definition in &object.maps {
            maps.insert(definition.name.clone(), open_map(&place, &folder, definition)?);
        }
        Ok(Self { claim: Some(claim), ..Self::over(place, object, maps) })
    }

    fn over(place: HookPlace, object: Object, maps: Maps) -> Self {
        let (maps, programs) = (Arc::new(maps), BTreeMap::new());
        Self { place, claim: None, object, maps, clients: None, programs, attached: Attached::default(), ending: None }
    }

    /// Opens what is pinned, for reading; `None` if there is nothing.
    pub(super) fn open_existing(place: HookPlace) -> Result<Option<Self>, Error> {
        let object = object()?;
        let folder = place.maps(layout(&object));
        let mut maps = Maps::new();
        for definition in &object.maps {
            let Some(map) = Map::open(&folder.join(&definition.name))? else { return Ok(None) };
            maps.insert(definition.name.clone(), map);
        }
        Ok(Some(Self::over(place, object, maps)))
    }

    pub(super) fn map(&self, name: MapName) -> Result<&Map, Error> {
        self.any_map(name.name())
    }

    pub(super) fn any_map(&self, name: &str) -> Result<&Map, Error> {
        self.maps.get(name).ok_or_else(|| failure(format!("using the BPF map {name}"), "the object has no such map"))
    }

    /// The map that programs are loaded over.
    fn used(&self, name: &str) -> Option<&Map> {
        self.clients.as_ref().filter(|_| name == clients::NAME).or_else(|| self.maps.get(name))
    }

    /// Replaces the map of few clients by one for all, and the programs by some that use it. No frontend with session affinity is
    /// written before, so that the small map is empty.
    pub(super) fn make_room_for_clients(&mut self) -> Result<(), Error> {
        let definition = self.object.maps.iter().find(|it| it.name == clients::NAME);
        let is_small = |it: &&MapDefinition| !self.used(&it.name).is_some_and(|map| map.info().is_like(it));
        let Some(definition) = definition.filter(is_small) else { return Ok(()) };
        let map = Map::create(definition)?;
        replace_pin(&map, &self.place.maps(layout(&self.object)).join(clients::NAME))?;
        self.clients = Some(map);
        if self.programs.is_empty() {
            return Ok(());
        }
        self.programs = self.load().inspect_err(|_| self.clients = None)?;
        self.attached.set(Vec::new());
        self.attach()
    }

    /// Attaches all programs, or replaces those that are attached.
    pub(super) fn attach(&mut self) -> Result<(), Error> {
        if self.programs.is_empty() {
            self.ending = programs::load_ending(|name| self.maps.get(name));
            self.programs = self.load()?;
        }
        let cgroup = Cgroup::open(&self.place.cgroup)?;
        self.pin_again()?;
        for (name, loaded) in &self.programs {
            let path = self.place.links().join(name);
            match Link::open(&path)?.filter(|link| is_at(link, &cgroup)) {
                Some(link) if link.info()?.program == loaded.id => {}
                Some(link) => link.update(&loaded.program)?,
                None => {
                    remove_pin(&path)?;
                    Link::attach(&loaded.program, portolan_kernel::fd::AsFd::as_fd(&cgroup))?.pin(&path)?;
                }
            }
        }
        self.attached.set(self.programs.iter().map(|(name, loaded)| (name.clone(), loaded.id)).collect());
        let maps = self.place.maps(layout(&self.object));
        let is_own = |link: &str| self.programs.contains_key(link);
        former::remove(&self.place.folder(), &maps, is_own).unwrap_or_else(|error| tracing::warn!("{error}"));
        Ok(())
    }

    /// A `cleanup`, or the daemon of another node with an earlier version, may have removed the pins.
    fn pin_again(&mut self) -> Result<(), Error> {
        let folder = self.place.maps(layout(&self.object));
        if folder.exists() {
            return Ok(());
        }
        self.claim = Some(Claim::make(&self.place.folder())?);
        create_folder(&folder)?;
        create_folder(&self.place.links())?;
        self.place.note_cgroup()?;
        self.object.maps.iter().filter_map(|it| Some((&it.name, self.used(&it.name)?))).try_for_each(|(name, map)| {
            map.pin(&folder.join(name))?;
            Ok(())
        })
    }

    /// Whether every program of this process is attached. False before the first [`Hooks::attach`].
    pub(super) fn is_attached(&self) -> Result<bool, Error> {
        let Ok(cgroup) = Cgroup::open(&self.place.cgroup) else { return Ok(false) };
        for (name, loaded) in &self.programs {
            let link = Link::open(&self.place.links().join(name))?.filter(|link| is_at(link, &cgroup));
            let program = link.map(|link| link.info()).transpose()?.map(|info| info.program);
            if program != Some(loaded.id) {
                return Ok(false);
            }
        }
        Ok(!self.programs.is_empty())
    }

    /// For the watch of the hooks.
    pub(super) fn attached(&self) -> Attached {
        self.attached.clone()
    }

    pub(super) fn maps(&self) -> Arc<Maps> {
        self.maps.clone()
    }

    /// Visits the UDP sockets of a network namespace, and ends those whose endpoint is gone.
    pub(super) fn ending(&self) -> Result<Option<SocketIterator>, Error> {
        Ok(self.ending.as_ref().map(SocketIterator::attach).transpose()?)
    }

    pub(super) fn place(&self) -> &HookPlace {
        &self.place
    }

    /// Whether this process has loaded its programs.
    pub(super) fn is_loaded(&self) -> bool {
        !self.programs.is_empty()
    }

    fn load(&self) -> Result<BTreeMap<String, Loaded>, Error> {
        let own =
            [("pass_root", u64::from(self.place.passes_root())), ("udp_connect", u64::from(self.ending.is_some()))];
        let constants = |can_refuse| constants(&self.object, self.place.namespace, can_refuse, &own);
        programs::load(&self.object, |name| self.used(name), constants)
    }
}

/// The pinned map, that of another layout, or a new one.
fn open_map(place: &HookPlace, folder: &Path, definition: &MapDefinition) -> Result<Map, Error> {
    let (path, is_usable) = (folder.join(&definition.name), |map: &Map| clients::is_like(map, definition));
    if let Some(map) = Map::open(&path)?.filter(is_usable) {
        return Ok(map);
    }
    let former = former::adopt(&place.folder(), folder, definition)?;
    let map = former.map_or_else(|| Map::create(&clients::at_first(definition)), Ok)?;
    replace_pin(&map, &path)?;
    Ok(map)
}

/// The attached programs by their links' names.
pub(super) fn link_programs(place: &HookPlace) -> Vec<(String, u32)> {
    let Ok(cgroup) = Cgroup::open(&place.cgroup) else { return Vec::new() };
    let links = fs::read_dir(place.links()).into_iter().flatten().flatten();
    let program = |entry: fs::DirEntry| {
        let link = Link::open(&entry.path()).ok()??;
        is_at(&link, &cgroup).then(|| Some((entry.file_name().into_string().ok()?, link.info().ok()?.program)))?
    };
    links.filter_map(program).collect()
}

fn is_at(link: &Link, cgroup: &Cgroup) -> bool {
    link.info().is_ok_and(|info| info.attached.is_some_and(|it| it.cgroup == cgroup.id()))
}
