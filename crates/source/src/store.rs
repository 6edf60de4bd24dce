//! All objects, by name, with the place where each is defined.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::files::{Place, Stamp};
use crate::object::{Kind, Object, ObjectId};
use crate::parse::{Parsed, ParsedFile};
use crate::report::Problem;

/// An object and where it stands: the number of its file, and which of the file's documents it is.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) file: u32,
    pub(crate) document: u32,
    pub(crate) object: Object,
}

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) place: Place,
    pub(crate) name: Arc<str>,
    /// `None` when the file must be read to know whether it changed.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) hash: Option<u64>,
    documents: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
    /// Broken documents of which no good version is known, if it is clear what they are about.
    broken: Vec<ObjectId>,
    /// Whether there are broken documents of which nobody can tell what they are about.
    riddles: bool,
    /// Why it cannot be read now, while what was read before stays in force.
    pub(crate) failure: Option<String>,
}

/// What is remembered of a document besides its object.
#[derive(Debug)]
struct Entry {
    /// `None` when the document is so broken that nobody can tell whose it is.
    id: Option<ObjectId>,
    line: u32,
}

/// What was in a file before it changed.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    documents: Vec<Entry>,
    pub(crate) definitions: Vec<(ObjectId, Definition)>,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    files: Vec<Option<File>>,
    /// Numbers of files that are gone.
    free: Vec<u32>,
    order: BTreeMap<Place, u32>,
    objects: BTreeMap<ObjectId, Definition>,
    /// Second definitions of the same object, which count for nothing while the first is there.
    rivals: BTreeMap<ObjectId, Vec<Definition>>,
}

impl Store {
    pub(crate) fn object(&self, id: &ObjectId) -> Option<&Object> {
        self.objects.get(id).map(|definition| &definition.object)
    }

    pub(crate) fn object_mut(&mut self, id: &ObjectId) -> Option<&mut Object> {
        self.objects.get_mut(id).map(|definition| &mut definition.object)
    }

    /// Definitions of the same object that count for nothing.
    pub(crate) fn rivals(&self, id: &ObjectId) -> impl Iterator<Item = &Object> {
        self.rivals.get(id).into_iter().flatten().map(|definition| &definition.object)
    }

    /// All objects of a kind, or those in one namespace.
    pub(crate) fn of_kind(&self, kind: Kind, namespace: Option<&str>) -> impl Iterator<Item = (&ObjectId, &Object)> {
        let start = ObjectId { kind, namespace: namespace.unwrap_or("").into(), name: "".into() };
        let wanted = namespace.map(str::to_owned);
        self.objects
            .range(start..)
            .take_while(move |(id, _)| id.kind == kind && wanted.as_deref().is_none_or(|name| *id.namespace == *name))
            .map(|(id, definition)| (id, &definition.object))
    }

    pub(crate) fn number(&self, place: &Place) -> Option<u32> {
        self.order.get(place).copied()
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = (&Place, u32)> {
        self.order.iter().map(|(place, number)| (place, *number))
    }

    pub(crate) fn file(&self, number: u32) -> Option<&File> {
        self.files.get(number as usize)?.as_ref()
    }

    pub(crate) fn file_mut(&mut self, number: u32) -> Option<&mut File> {
        self.files.get_mut(number as usize)?.as_mut()
    }

    /// The files in their order.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.order.values().filter_map(|number| self.file(*number))
    }

    pub(crate) fn add_file(&mut self, place: Place) -> u32 {
        let name: Arc<str> = place.1.display().to_string().into();
        let file = File {
            place: place.clone(),
            name,
            stamp: None,
            hash: None,
            documents: Vec::new(),
            problems: Vec::new(),
            broken: Vec::new(),
            riddles: false,
            failure: None,
        };
        let number = self.free.pop().unwrap_or(self.files.len() as u32);
        self.files.resize_with(self.files.len().max(number as usize + 1), || None);
        self.files[number as usize] = Some(file);
        self.order.insert(place, number);
        number
    }

    pub(crate) fn remove_file(&mut self, number: u32) {
        if let Some(file) = self.files.get_mut(number as usize).and_then(Option::take) {
            self.order.remove(&file.place);
            self.free.push(number);
        }
    }

    /// Where an object is defined: its file and line.
    pub(crate) fn origin(&self, id: &ObjectId) -> Option<(Arc<str>, u32)> {
        self.whereabouts(self.objects.get(id)?)
    }

    /// What decides which of two comes first: the file's place, then the document's.
    pub(crate) fn position(&self, id: &ObjectId) -> Option<(&Place, u32)> {
        let definition = self.objects.get(id)?;
        Some((&self.file(definition.file)?.place, definition.document))
    }

    fn whereabouts(&self, definition: &Definition) -> Option<(Arc<str>, u32)> {
        let file = self.file(definition.file)?;
        Some((file.name.clone(), file.documents.get(definition.document as usize)?.line))
    }

    /// Takes everything out that a file defines.
    pub(crate) fn take(&mut self, number: u32) -> Taken {
        let Some(file) = self.file_mut(number) else { return Taken::default() };
        let documents = std::mem::take(&mut file.documents);
        let mut definitions = Vec::with_capacity(documents.len());
        for (index, entry) in (0..).zip(&documents) {
            let id = entry.id.as_ref();
            let found = id.and_then(|id| Some((id.clone(), self.take_definition(id, number, index)?)));
            definitions.extend(found);
        }
        Taken { documents, definitions }
    }

    fn take_definition(&mut self, id: &ObjectId, file: u32, document: u32) -> Option<Definition> {
        let is_it = |definition: &Definition| definition.file == file && definition.document == document;
        if !self.objects.get(id).is_some_and(is_it) {
            let rivals = self.rivals.get_mut(id)?;
            let taken = rivals.remove(rivals.iter().position(is_it)?);
            self.rivals.retain(|_, rivals| !rivals.is_empty());
            return Some(taken);
        }
        let taken = self.objects.remove(id);
        for rival in self.rivals.remove(id).unwrap_or_default() {
            self.insert(id.clone(), rival);
        }
        taken
    }

    /// Puts a file back as it was.
    pub(crate) fn put_back(&mut self, number: u32, taken: Taken) {
        let Some(file) = self.file_mut(number) else { return };
        file.documents = taken.documents;
        taken.definitions.into_iter().for_each(|(id, definition)| self.insert(id, definition));
    }

    fn insert(&mut self, id: ObjectId, definition: Definition) {
        let Some(known) = self.objects.get(&id) else {
            self.objects.insert(id, definition);
            return;
        };
        let goes_first = self.precedence(&definition) < self.precedence(known);
        let rival = if goes_first { self.objects.insert(id.clone(), definition) } else { Some(definition) };
        self.rivals.entry(id).or_default().extend(rival);
    }

    fn precedence(&self, definition: &Definition) -> (Option<&Place>, u32) {
        (self.file(definition.file).map(|file| &file.place), definition.document)
    }

    /// Takes in what a file says now. A broken document keeps the last good version of its object, which is found in
    /// `taken` by its name or, if it has lost that, by its place in the file.
    pub(crate) fn fill(&mut self, number: u32, mut parsed: ParsedFile, taken: &mut BTreeMap<u32, Taken>) {
        keep_last_good(number, &mut parsed.documents, taken);
        let broken = parsed.documents.iter().filter(|document| document.object.is_none());
        let broken = broken.filter_map(|document| document.id.clone()).collect();
        let mut entries = Vec::with_capacity(parsed.documents.len());
        let mut definitions = Vec::with_capacity(parsed.documents.len());
        for (document, Parsed { line, id, object }) in (0..).zip(parsed.documents) {
            let definition = object.map(|object| Definition { file: number, document, object });
            definitions.extend(id.clone().zip(definition));
            entries.push(Entry { id, line });
        }
        if let Some(file) = self.file_mut(number) {
            file.riddles = entries.iter().any(|entry| entry.id.is_none());
            (file.documents, file.problems, file.broken) = (entries, parsed.problems, broken);
        }
        definitions.into_iter().for_each(|(id, definition)| self.insert(id, definition));
    }

    /// The objects that a file defines.
    pub(crate) fn defined_by(&self, number: u32) -> impl Iterator<Item = ObjectId> {
        let entries = self.file(number).into_iter().flat_map(|file| &file.documents);
        entries.filter_map(|entry| entry.id.clone())
    }

    /// Whether some document somewhere may be about any object at all.
    pub(crate) fn has_riddles(&self) -> bool {
        self.files().any(|file| file.failure.is_some() || file.riddles)
    }

    /// Whether some document, though broken, is about this object.
    pub(crate) fn mentions(&self, id: &ObjectId) -> bool {
        self.files().any(|file| file.broken.contains(id))
    }

    pub(crate) fn duplicates(&self) -> Vec<Problem> {
        let pairs = self.rivals.iter().flat_map(|(id, rivals)| rivals.iter().map(move |rival| (id, rival)));
        pairs.filter_map(|(id, rival)| self.duplicate(id, rival)).collect()
    }

    fn duplicate(&self, id: &ObjectId, rival: &Definition) -> Option<Problem> {
        let (first_file, first_line) = self.origin(id)?;
        let (file, line) = self.whereabouts(rival)?;
        let reason = format!("is defined already at {first_file}:{first_line}, which stays in force");
        Some(Problem { file, line, object: Some(id.to_string()), reason })
    }
}

fn keep_last_good(file: u32, documents: &mut [Parsed], taken: &mut BTreeMap<u32, Taken>) {
    if documents.iter().all(|document| document.object.is_some()) {
        return;
    }
    let good = documents.iter().filter(|document| document.object.is_some());
    let good: HashSet<ObjectId> = good.filter_map(|document| document.id.clone()).collect();
    for (index, document) in documents.iter_mut().enumerate().filter(|(_, document)| document.object.is_none()) {
        let known = taken.get(&file).and_then(|taken| taken.documents.get(index)?.id.clone());
        let Some(id) = document.id.clone().or(known).filter(|id| !good.contains(id)) else { continue };
        document.object = taken.values_mut().find_map(|taken| remove(&mut taken.definitions, &id));
        document.id = document.id.take().or(document.object.is_some().then_some(id));
    }
}

fn remove(definitions: &mut Vec<(ObjectId, Definition)>, id: &ObjectId) -> Option<Object> {
    let index = definitions.iter().position(|(known, _)| known == id)?;
    Some(definitions.swap_remove(index).1.object)
}
