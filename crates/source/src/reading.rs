//! Reads files and parses their documents: one after the other, or in another thread while the objects of the files before are
//! converted.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::SystemTime;

use portolan_yaml::Tree;

use crate::files::{self, Stamp};
use crate::yaml::document::Document;
use crate::yaml::split::split;

/// With fewer files a thread takes longer than it saves.
const MANY: usize = 16;

/// Files that wait for the conversion.
const AHEAD: usize = 2;

/// Larger texts are parsed document by document, when each is converted: a tree takes twice the memory of its text.
const LARGE: usize = 4 << 20;

/// A file that may have changed.
pub(crate) struct Request {
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
    pub(crate) may_be_pipe: bool,
    pub(crate) stamp: Option<Stamp>,
    /// The text is there already when it does not come from the disk.
    pub(crate) text: Option<String>,
    /// The hash of the text that was read last.
    pub(crate) known: Option<u64>,
}

pub(crate) struct ReadFile {
    pub(crate) number: u32,
    /// `None` if the file must be read again to see whether it changed.
    pub(crate) stamp: Option<Stamp>,
    pub(crate) outcome: Outcome,
}

pub(crate) enum Outcome {
    Unreadable(io::Error),
    Unchanged,
    Changed(FileContent),
}

pub(crate) struct FileContent {
    pub(crate) text: String,
    pub(crate) hash: u64,
    pub(crate) documents: Vec<Document>,
    /// Of all documents that are parsed beforehand. One piece of memory for a file: a heap that two threads share is slow for
    /// both if one takes large pieces of it all the time.
    pub(crate) trees: Tree,
}

/// Reads all files, in their order.
pub(crate) fn read(requests: Vec<Request>, mut take: impl FnMut(ReadFile)) {
    if requests.len() < MANY {
        return requests.into_iter().map(read_one).for_each(take);
    }
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel(AHEAD);
        scope.spawn(move || requests.into_iter().map(read_one).all(|file| sender.send(file).is_ok()));
        receiver.into_iter().for_each(&mut take);
    });
}

fn read_one(request: Request) -> ReadFile {
    let Request { number, path, may_be_pipe, stamp, text, known } = request;
    // Before the file is read: it may change again within the resolution of its time.
    let stamp = stamp.filter(|stamp| stamp.is_settled(SystemTime::now()));
    let outcome = match text.map_or_else(|| files::read(&path, may_be_pipe), Ok) {
        Ok(text) => parse(text, known),
        Err(error) => Outcome::Unreadable(error),
    };
    ReadFile { number, stamp, outcome }
}

fn parse(text: String, known: Option<u64>) -> Outcome {
    let hash = files::content_hash(text.as_bytes());
    if known == Some(hash) {
        return Outcome::Unchanged;
    }
    let mut documents = split(&text);
    let mut trees = Tree::default();
    if text.len() < LARGE {
        trees = Tree::for_text_of(text.len());
        documents.iter_mut().for_each(|document| document.parse(&text, &mut trees));
    }
    Outcome::Changed(FileContent { text, hash, documents, trees })
}
