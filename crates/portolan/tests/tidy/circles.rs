//! Files that import each other in a circle can be understood only together. This finds such circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{assert_none, crates, file_name, read, rust_files};

/// The parts of the event loop of userspace mode are states of the same connection.
const MAY_BE_CIRCULAR: &str = "relay/system/worker/";

/// The path of a module within its crate; empty for the root.
type Module = Vec<String>;

/// A path in a file, and the name that `use` gives to it.
struct Import {
    path: Vec<String>,
    name: Option<String>,
}

/// The modules of one crate, each a file, with their imports.
struct Modules(BTreeMap<Module, Vec<Import>>);

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut failures = Vec::new();
    for krate in crates() {
        let circles = Modules::read(&krate.join("src")).circles();
        let named = circles.iter().map(|circle| names(&file_name(&krate), circle));
        let named = named.filter(|files| !files.iter().all(|file| file.starts_with(MAY_BE_CIRCULAR)));
        failures.extend(named.map(|files| files.join(" <-> ")));
    }
    assert_none(&failures);
}

fn names(krate: &str, circle: &BTreeSet<Module>) -> Vec<String> {
    circle.iter().map(|module| format!("{krate}/{}", module.join("/"))).collect()
}

impl Modules {
    fn read(folder: &Path) -> Self {
        // The folder of the other operating system has the same modules.
        let is_other =
            |file: &Path| file.strip_prefix(folder).is_ok_and(|it| it.starts_with("windows") || it == "windows.rs");
        let files = rust_files(folder).into_iter().filter(|file| file_name(file) != "main.rs" && !is_other(file));
        Self::new(files.map(|file| (module_of(file.strip_prefix(folder).unwrap_or(&file)), read(&file))))
    }

    fn new(files: impl Iterator<Item = (Module, String)>) -> Self {
        Self(files.map(|(module, text)| (module, imports(&text))).collect())
    }

    /// Every largest set of files of which each imports each other, directly or through others.
    fn circles(&self) -> BTreeSet<BTreeSet<Module>> {
        let edges: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.keys().map(|module| (module, self.imported_by(module))).collect();
        let reached: BTreeMap<&Module, BTreeSet<Module>> =
            self.0.keys().map(|module| (module, reachable(&edges, module))).collect();
        let circular = self.0.keys().filter(|module| reached[module].contains(*module));
        circular
            .map(|module| reached[module].iter().filter(|it| reached[it].contains(module)).cloned().collect())
            .collect()
    }

    /// The files that a file imports from. A module and those within it belong together and do not count.
    fn imported_by(&self, module: &Module) -> BTreeSet<Module> {
        let found = self.0[module].iter().filter_map(|import| self.resolve(module, &import.path));
        found.filter(|other| !other.starts_with(module) && !module.starts_with(other)).collect()
    }

    /// The file that defines what the path leads to, through re-exports; `None` outside this crate.
    fn resolve(&self, from: &Module, path: &[String]) -> Option<Module> {
        let (mut module, mut rest) = self.start(from, path)?;
        while let Some((first, others)) = rest.split_first() {
            let child = [&module[..], std::slice::from_ref(first)].concat();
            if !self.0.contains_key(&child) {
                break;
            }
            (module, rest) = (child, others);
        }
        let exports = |import: &&Import| import.name.as_ref() == rest.first();
        let exported = rest.first().and_then(|_| self.0.get(&module)?.iter().find(exports));
        exported.filter(|_| module != *from).and_then(|it| self.resolve(&module, &it.path)).or(Some(module))
    }

    fn start<'a>(&self, from: &Module, path: &'a [String]) -> Option<(Module, &'a [String])> {
        let (first, rest) = path.split_first()?;
        let parent = || from[..from.len().saturating_sub(1)].to_vec();
        match first.as_str() {
            "crate" => Some((Module::new(), rest)),
            "self" => Some((from.clone(), rest)),
            "super" if rest.first().is_some_and(|it| it == "super") => self.start(&parent(), rest),
            "super" => Some((parent(), rest)),
            _ => self.0.contains_key(&[&from[..], &path[..1]].concat()).then(|| (from.clone(), path)),
        }
    }
}

fn reachable(edges: &BTreeMap<&Module, BTreeSet<Module>>, start: &Module) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = vec![start];
    while let Some(module) = open.pop() {
        let next = edges.get(module).into_iter().flatten();
        open.extend(next.filter(|module| reached.insert((*module).clone())));
    }
    reached
}

fn module_of(file: &Path) -> Module {
    let mut module: Module = file.with_extension("").iter().map(|it| it.to_string_lossy().into_owned()).collect();
    // The folder of Linux is the module `system`.
    if let Some(first) = module.first_mut().filter(|it| *it == "linux") {
        "system".clone_into(first);
    }
    if module.last().is_some_and(|it| it == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}

/// Every path that begins in this crate, in `use` and elsewhere, without comments and the tests at the end.
fn imports(text: &str) -> Vec<Import> {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    let code = lines.collect::<Vec<_>>().join("\n");
    let end = code.match_indices("#[cfg(test)]\nmod ").find(|(start, _)| is_inline(&code[*start..]));
    let words = words(&code[..end.map_or(code.len(), |(start, _)| start)]);
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let is_path = matches!(*word, "crate" | "super" | "self") && (index == 0 || words[index - 1] != "::");
        if *word == "use" {
            read_paths(&mut words[index + 1..].iter().copied().peekable(), &[], &mut found);
        } else if is_path {
            let mut used = Vec::new();
            read_paths(&mut words[index..].iter().copied().peekable(), &[], &mut used);
            found.extend(used.into_iter().map(|it| Import { name: None, ..it }));
        }
    }
    found
}

fn is_inline(module: &str) -> bool {
    module.find(['{', ';']).is_some_and(|end| module[end..].starts_with('{'))
}

/// Names, double colons, and single other characters.
fn words(code: &str) -> Vec<&str> {
    let is_name = |it: char| it.is_alphanumeric() || it == '_';
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if is_name(first) => rest.find(|it| !is_name(it)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        words.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    words
}

/// `a::b`, `a::{b, c::d}`, `a::b as c`.
fn read_paths<'a>(
    words: &mut std::iter::Peekable<impl Iterator<Item = &'a str> + Clone>,
    before: &[String],
    found: &mut Vec<Import>,
) {
    let mut path = before.to_vec();
    while let Some(word) = words.next() {
        if word == "{" {
            while words.peek().is_some_and(|word| *word != "}") {
                read_paths(words, &path, found);
                words.next_if_eq(&",");
            }
            words.next();
            return;
        }
        path.push(word.to_owned());
        if words.next_if_eq(&"::").is_none() {
            break;
        }
    }
    let alias = words.next_if_eq(&"as").and_then(|_| words.next()).map(str::to_owned);
    // `a::{self}` is `a`.
    if path.len() > 1 && path.last().is_some_and(|it| it == "self") {
        path.pop();
    }
    found.push(Import { name: alias.or_else(|| path.last().cloned()), path });
}

fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let modules = files.iter().map(|(file, text)| (module_of(Path::new(file)), (*text).to_owned()));
    Modules::new(modules).circles().iter().map(|circle| names("it", circle)).collect()
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    for (one, other) in [
        ("use crate::b::B;", "use super::a::A;"),
        ("use crate::{\n    d::D,\n    b::{self, B},\n};", "fn f() { crate::a::f() }"),
        ("use super::B;", "fn f(it: super::a::A) {}"),
        ("use super::Other;", "use crate::A as First;"),
    ] {
        let root = "mod a; mod b; mod c; pub use a::A; pub use b::{B, B as Other};";
        let found = circles(&[("lib.rs", root), ("a.rs", one), ("b.rs", other), ("c.rs", "use crate::a::A;")]);
        assert_eq!(found, [["it/a", "it/b"]], "{one} {other}");
    }
}

#[test]
fn a_circle_may_be_longer_and_span_folders() {
    let files =
        [("a/mod.rs", "mod x; use crate::b::y::Y;"), ("a/x.rs", ""), ("b/y.rs", "use crate::c::C;"), ("b/mod.rs", "")];
    assert_eq!(circles(&[&files[..], &[("c.rs", "use crate::a;")]].concat()), [["it/a", "it/b/y", "it/c"]]);
    assert!(circles(&[&files[..], &[("c.rs", "use crate::a::x::X;")]].concat()).is_empty());
}

#[test]
fn parents_tests_and_comments_make_no_circle() {
    let tests = "use crate::b::B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n";
    assert!(circles(&[("lib.rs", "mod a; use a::A;"), ("a.rs", "use crate::Root;")]).is_empty());
    assert!(circles(&[("a/mod.rs", "use x::X;"), ("a/x.rs", "use super::A;")]).is_empty());
    assert!(circles(&[("a.rs", tests), ("b.rs", "// use crate::a::A;\n#[cfg(test)]\nmod tests;")]).is_empty());
    assert_eq!(circles(&[("a.rs", tests), ("b.rs", "#[cfg(test)]\nmod tests;\nuse crate::a::A;")]).len(), 1);
}
