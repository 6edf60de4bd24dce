//! All objects by name, each with the place where it is defined.

use std::collections::HashSet;
use std::collections::btree_map::{self, BTreeMap};
use std::sync::Arc;

use crate::files::{Place, Stamp};
use crate::object::{Kind, Object, ObjectId};
use crate::parse::{Parsed, ParsedFile};
use crate::report::Problem;

/// An object and its place: the number of the file, and the index of the document in the file.
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
    /// `None` if the file must be read to see whether it changed.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) hash: Option<u64>,
    documents: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
    /// Malformed documents without a last good version, if their object is identified.
    malformed: Vec<ObjectId>,
    /// Whether there are malformed documents whose object is not identified.
    unidentified: bool,
    /// Why the file cannot be read. What was read before stays in force.
    pub(crate) failure: Option<String>,
}

/// A document without its object.
#[derive(Debug)]
struct Entry {
    /// `None` if the object is not identified.
    id: Option<ObjectId>,
    line: u32,
}

/// The content of a file before it changed.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    documents: Vec<Entry>,
    pub(crate) definitions: Vec<(ObjectId, Definition)>,
}

#[derive(Debug, Default)]
pub(crate) struct Store {
    files: Vec<Option<File>>,
    /// Numbers of removed files.
    free: Vec<u32>,
    order: BTreeMap<Place, u32>,
    objects: BTreeMap<ObjectId, Definition>,
    /// Further definitions of the same object, which have no effect while the first is there.
    rivals: BTreeMap<ObjectId, Vec<Definition>>,
}

impl Store {
    pub(crate) fn object(&self, id: &ObjectId) -> Option<&Object> {
        self.objects.get(id).map(|definition| &definition.object)
    }

    pub(crate) fn object_mut(&mut self, id: &ObjectId) -> Option<&mut Object> {
        self.objects.get_mut(id).map(|definition| &mut definition.object)
    }

    /// Further definitions of the same object, which have no effect.
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

    /// The files in order.
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
            malformed: Vec::new(),
            unidentified: false,
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
        self.location(self.objects.get(id)?)
    }

    /// Objects are ordered by file, then by document.
    pub(crate) fn position(&self, id: &ObjectId) -> Option<(&Place, u32)> {
        let definition = self.objects.get(id)?;
        Some((&self.file(definition.file)?.place, definition.document))
    }

    fn location(&self, definition: &Definition) -> Option<(Arc<str>, u32)> {
        let file = self.file(definition.file)?;
        Some((file.name.clone(), file.documents.get(definition.document as usize)?.line))
    }

    /// Removes all definitions of a file.
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
        let mut known = match self.objects.entry(id) {
            btree_map::Entry::Occupied(known) => known,
            btree_map::Entry::Vacant(free) => {
                free.insert(definition);
                return;
            }
        };
        let goes_first = precedence(&self.files, &definition) < precedence(&self.files, known.get());
        let id = known.key().clone();
        let rival = if goes_first { known.insert(definition) } else { definition };
        self.rivals.entry(id).or_default().push(rival);
    }

    /// Adds the new content of a file. A malformed document keeps the last good version of its object, which is found in
    /// `taken` by its name or, without one, by its place in the file.
    pub(crate) fn fill(&mut self, number: u32, mut parsed: ParsedFile, taken: &mut BTreeMap<u32, Taken>) {
        keep_last_good(number, &mut parsed.documents, taken);
        let malformed = parsed.documents.iter().filter(|document| document.object.is_none());
        let malformed = malformed.filter_map(|document| document.id.clone()).collect();
        let mut entries = Vec::with_capacity(parsed.documents.len());
        let mut definitions = Vec::with_capacity(parsed.documents.len());
        for (document, Parsed { line, id, object }) in (0..).zip(parsed.documents) {
            let definition = object.map(|object| Definition { file: number, document, object });
            definitions.extend(id.clone().zip(definition));
            entries.push(Entry { id, line });
        }
        if let Some(file) = self.file_mut(number) {
            file.unidentified = entries.iter().any(|entry| entry.id.is_none());
            (file.documents, file.problems, file.malformed) = (entries, parsed.problems, malformed);
        }
        definitions.into_iter().for_each(|(id, definition)| self.insert(id, definition));
    }

    /// The objects that a file defines.
    pub(crate) fn defined_by(&self, number: u32) -> impl Iterator<Item = ObjectId> {
        let entries = self.file(number).into_iter().flat_map(|file| &file.documents);
        entries.filter_map(|entry| entry.id.clone())
    }

    /// Whether there is a document that may define any object.
    pub(crate) fn has_unidentified(&self) -> bool {
        self.files().any(|file| file.failure.is_some() || file.unidentified)
    }

    /// Whether a malformed document defines this object.
    pub(crate) fn is_malformed(&self, id: &ObjectId) -> bool {
        self.files().any(|file| file.malformed.contains(id))
    }

    pub(crate) fn duplicates(&self) -> Vec<Problem> {
        let pairs = self.rivals.iter().flat_map(|(id, rivals)| rivals.iter().map(move |rival| (id, rival)));
        pairs.filter_map(|(id, rival)| self.duplicate(id, rival)).collect()
    }

    fn duplicate(&self, id: &ObjectId, rival: &Definition) -> Option<Problem> {
        let (first_file, first_line) = self.origin(id)?;
        let (file, line) = self.location(rival)?;
        let reason = format!("already defined at {first_file}:{first_line}, which stays in force");
        Some(Problem { file, line, object: Some(id.to_string()), reason })
    }
}

fn precedence<'a>(files: &'a [Option<File>], definition: &Definition) -> (Option<&'a Place>, u32) {
    let file = files.get(definition.file as usize).and_then(Option::as_ref);
    (file.map(|file| &file.place), definition.document)
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
