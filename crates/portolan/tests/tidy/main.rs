//! Rules of the repository. Each failure names the files that break the rule.

mod circles;
mod differences;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;
use portolan::flags::Cli;
use portolan_dataplane::modes;
use portolan_testkit::Scenario;

/// The crates that each crate may depend on. Tests may use more.
const ARROWS: [(&str, &[&str]); 19] = [
    ("model", &[]),
    ("yaml", &[]),
    ("source", &["model", "yaml"]),
    ("config", &["model", "yaml"]),
    ("plan", &["model"]),
    ("balance", &["model"]),
    ("kernel", &["model"]),
    ("relay", &["kernel", "model"]),
    ("dns", &["model", "kernel"]),
    ("hns", &["kernel"]),
    ("dataplane", &["plan", "kernel", "hns", "relay", "model"]),
    ("explain", &["plan", "dataplane", "model"]),
    ("top", &["explain", "kernel"]),
    ("status", &["plan", "kernel", "model"]),
    ("page", &["plan", "dataplane", "explain", "source", "status", "model"]),
    ("shadow", &["plan", "dataplane", "kernel", "model"]),
    (
        "portolan",
        &[
            "model",
            "source",
            "config",
            "plan",
            "balance",
            "kernel",
            "dataplane",
            "dns",
            "explain",
            "status",
            "page",
            "shadow",
            "top",
        ],
    ),
    ("testkit", &["yaml"]),
    ("fuzz", &["model", "source", "config", "plan", "kernel", "dataplane", "dns", "shadow"]),
];

/// The number of scenarios, so that the loss of a file fails.
const NUMBER_OF_SCENARIOS: usize = 198;

/// This file contains what it forbids.
const MYSELF: &str = "tests/tidy/main.rs";

/// The only place in tests that may sleep: between two polls of a condition.
const POLLING: &str = "tests/daemon/poll.rs";

#[test]
fn crates_build_only_on_those_below_them() {
    let mut failures = Vec::new();
    for krate in crates() {
        let name = file_name(&krate);
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            failures.push(format!("crates/{name} is not in the table of this test"));
            continue;
        };
        let manifest = read(&krate.join("Cargo.toml"));
        let used = own_dependencies(&manifest);
        let wrong = used.iter().filter(|it| !allowed.contains(&it.as_str()));
        failures.extend(wrong.map(|it| format!("crates/{name} must not depend on {it}")));
    }
    assert_none(&failures);
}

/// The crates of this workspace that a manifest names outside its dev-dependencies.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(heading) = line.strip_prefix('[') {
            section = heading.trim_end_matches(']');
        }
        if section.contains("dependencies") && !section.contains("dev-dependencies") {
            let name = line.trim_start_matches('[').rsplit("dependencies.").next().unwrap_or(line);
            let end = name.find(|it: char| !it.is_alphanumeric() && it != '-').unwrap_or(name.len());
            found.extend(name[..end].strip_prefix("portolan-").map(str::to_owned));
        }
    }
    found
}

#[test]
fn a_dependency_is_seen_however_it_is_written() {
    let manifest = "[dependencies]\nserde = \"1\"\nportolan-plan.workspace = true\n[dev-dependencies]\n\
        portolan-testkit.workspace = true\n[dependencies.portolan-model]\npath = \"x\"\n[target.'cfg(unix)'.dependencies]\n\
        portolan-kernel = { path = \"y\" }\n";
    assert_eq!(own_dependencies(manifest), ["plan", "model", "kernel"]);
}

#[test]
fn only_the_kernel_crate_is_unsafe() {
    let mut failures = Vec::new();
    for krate in crates().into_iter().filter(|krate| file_name(krate) != "kernel") {
        let roots = ["src/lib.rs", "src/main.rs"].map(|root| krate.join(root));
        let lax = roots.iter().filter(|root| root.exists() && !read(root).contains("#![forbid(unsafe_code)]"));
        failures.extend(lax.map(|root| format!("{} lacks #![forbid(unsafe_code)]", root.display())));
        failures.extend(lines_with(&rust_files(&krate), |line| line.contains("unsafe ") || line.contains("unsafe{")));
    }
    assert_none(&failures);
}

#[test]
fn only_source_knows_the_documents_of_kubernetes() {
    let mut failures = Vec::new();
    for krate in
        crates().into_iter().filter(|krate| !matches!(&*file_name(krate), "source" | "config" | "testkit" | "yaml"))
    {
        let is_about =
            |line: &str| line.contains("yaml::") || line.contains("portolan-yaml") || line.contains("apiVersion");
        failures.extend(lines_with(&rust_files(&krate.join("src")), is_about));
        failures.extend(lines_with(&[krate.join("Cargo.toml")], is_about));
    }
    assert_none(&failures);
}

#[test]
fn nothing_is_left_undone_or_skipped() {
    let forbidden = ["todo!", "unimplemented!", "dbg!", "#[ignore"];
    let is_undone = |line: &str| forbidden.iter().any(|it| line.contains(it));
    assert_none(&lines_with(&rust_files(&root().join("crates")), is_undone));
}

#[test]
fn tests_poll_for_conditions_instead_of_sleeping() {
    let folders = crates().into_iter().map(|krate| krate.join("tests"));
    let files: Vec<PathBuf> = folders.flat_map(|folder| rust_files(&folder)).collect();
    let files: Vec<PathBuf> = files.into_iter().filter(|file| !file.ends_with(POLLING)).collect();
    assert_none(&lines_with(&files, |line| words(line).any(|word| word == "sleep")));
}

#[test]
fn no_mode_imports_another() {
    let folder = root().join("crates/dataplane/src");
    let modes: Vec<&str> = mode_names().collect();
    let mut failures = Vec::new();
    for mode in &modes {
        let others: Vec<String> = modes.iter().filter(|it| *it != mode).map(|it| format!("{it}::")).collect();
        // The kernel crate's module of that name is open to all modes.
        let is_kernels = |line: &str| line.contains("portolan_kernel::");
        let imports = |line: &str| !is_kernels(line) && others.iter().any(|other| line.contains(other.as_str()));
        failures.extend(lines_with(&rust_files(&folder.join(mode)), imports));
    }
    let of_modes: Vec<String> = modes.iter().map(|mode| format!("crate::{mode}::")).collect();
    let imports = |line: &str| of_modes.iter().any(|mode| line.contains(mode.as_str()));
    failures.extend(lines_with(&rust_files(&folder.join("tables")), imports));
    assert_none(&failures);
}

/// Where the name of a mode may appear in code besides its own folder: the registry, the table of flags and fields, the
/// modules of the kernel crate with the same name, comparisons with kube-proxy's modes, fuzz targets, and the sections of scenario
/// files.
const MAY_NAME_MODES: [&str; 7] = [
    "crates/config/",
    "crates/fuzz/",
    "crates/kernel/",
    "crates/shadow/",
    "crates/testkit/",
    "crates/dataplane/src/modes.rs",
    "crates/dataplane/src/lib.rs",
];

/// The iptables programs have the name of a mode.
const PROGRAMS: &str = "crates/dataplane/src/tables/";

#[test]
fn a_mode_is_named_in_its_folder_and_in_the_registry_only() {
    let mut failures = Vec::new();
    for file in crates().iter().flat_map(|krate| rust_files(&krate.join("src"))) {
        let path = file.display().to_string();
        if MAY_NAME_MODES.iter().any(|place| path.contains(place)) {
            continue;
        }
        let foreign: Vec<&str> =
            mode_names().filter(|mode| !path.contains(&format!("dataplane/src/{mode}/"))).collect();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        failures.extend(foreign.iter().filter(|mode| **mode == stem).map(|_| format!("{path} is named after a mode")));
        let is_program = path.contains(PROGRAMS);
        failures.extend(lines_with(&[file], |line| foreign.iter().any(|mode| names_mode(line, mode, is_program))));
    }
    assert_none(&failures);
}

fn mode_names() -> impl Iterator<Item = &'static str> {
    modes::ALL.iter().map(|mode| mode.name())
}

/// A path into the mode's module, a variant of that name, or its name as a text.
fn names_mode(line: &str, mode: &str, is_program: bool) -> bool {
    let is_kernels = |start: usize| line[..start].ends_with("kernel::");
    let path = line
        .match_indices(&format!("{mode}::"))
        .any(|(start, _)| !is_kernels(start) && !line[..start].ends_with(|it: char| it.is_alphanumeric() || it == '_'));
    let variant = format!("Mode::{}{}", mode[..1].to_uppercase(), &mode[1..]);
    path || line.contains(&variant) || (!is_program && line.contains(&format!("\"{mode}\"")))
}

#[test]
fn a_name_of_a_mode_is_found_in_code() {
    assert!(names_mode("use crate::ipvs::DEVICE;", "ipvs", false));
    assert!(names_mode("Mode::Ipvs => 1,", "ipvs", false));
    assert!(names_mode("if mode == \"ipvs\" {", "ipvs", false));
    assert!(!names_mode("use portolan_kernel::ipvs::Ipvs;", "ipvs", false));
    assert!(!names_mode("run(\"iptables\")", "iptables", true));
}

#[test]
fn scenarios_are_complete_and_have_a_title_and_prose() {
    let scenarios = Scenario::all(root().join("scenarios")).expect("every scenario can be read");
    let silent = scenarios.iter().filter(|it| it.title.trim().is_empty() || it.prose.trim().is_empty());
    let silent: Vec<String> = silent.map(|it| format!("scenarios/{}.txt needs a title and prose", it.name)).collect();
    assert_none(&silent);
    assert_eq!(scenarios.len(), NUMBER_OF_SCENARIOS, "scenarios; a new one needs a higher number here");
}

#[test]
fn documented_commands_can_be_parsed() {
    let mut failures = Vec::new();
    for file in documents() {
        for command in commands(&read(&file)) {
            match Cli::try_parse_from(command.split_whitespace()) {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {}
                Err(error) => failures.push(format!("{}: `{command}`: {error}", file.display())),
            }
        }
    }
    assert_none(&failures);
}

/// The lines of code blocks that run `portolan`, with continuations joined, without redirections and comments.
fn commands(markdown: &str) -> Vec<String> {
    let mut is_code = false;
    let joined = markdown.replace("\\\n", " ");
    let mut found = Vec::new();
    for line in joined.lines().map(str::trim) {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let line = line.trim_start_matches("$ ").trim_start_matches("# ").trim_start_matches("sudo ");
        if is_code && line.starts_with("portolan ") {
            let end = [" | ", " > ", " # ", " && ", " & ", " ; ", " 2>"].iter().filter_map(|it| line.find(it)).min();
            let command = line[..end.unwrap_or(line.len())].trim_end_matches(" &");
            found.push(command.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    found
}

#[test]
fn commands_are_found_in_code_blocks_only() {
    let markdown = "portolan prose\n```sh\n$ sudo portolan verify  # is it so?\nportolan render \\\n --manifests x | less\n\
        output\n```\nportolan prose\n";
    assert_eq!(commands(markdown), ["portolan verify", "portolan render --manifests x"]);
}

#[test]
fn links_between_documents_resolve() {
    let mut failures = Vec::new();
    for file in documents() {
        let folder = file.parent().expect("a file is in a folder").to_owned();
        let dead = links(&read(&file)).into_iter().filter(|link| !folder.join(link).exists());
        failures.extend(dead.map(|link| format!("{}: {link} does not exist", file.display())));
    }
    assert_none(&failures);
}

/// The files that a page links to, without other sites and anchors.
fn links(markdown: &str) -> Vec<String> {
    let targets = markdown.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let files = targets.map(|target| target.split('#').next().unwrap_or(target));
    files.filter(|file| !file.is_empty() && !file.contains(':')).map(str::to_owned).collect()
}

#[test]
fn links_to_files_are_distinguished_from_others() {
    let markdown = "[a](docs/a.md#top) [b](https://example.org/b) [c](#here) ![d](d.svg \"title\")";
    assert_eq!(links(markdown), ["docs/a.md", "d.svg"]);
}

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.canonicalize().expect("the workspace is where it was built")
}

fn crates() -> Vec<PathBuf> {
    entries(&root().join("crates")).into_iter().filter(|it| it.is_dir()).collect()
}

/// Every document of the repository.
fn documents() -> Vec<PathBuf> {
    files_below(&root()).into_iter().filter(|file| file.extension().is_some_and(|it| it == "md")).collect()
}

/// Every Rust file but this one.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let is_rust = |file: &PathBuf| file.extension().is_some_and(|it| it == "rs") && !file.ends_with(MYSELF);
    files_below(folder).into_iter().filter(is_rust).collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| !file_name(path).starts_with('.') && !file_name(path).starts_with("target");
    let (folders, mut files): (Vec<_>, Vec<_>) =
        entries(folder).into_iter().filter(is_ours).partition(|it| it.is_dir());
    files.extend(folders.iter().flat_map(|folder| files_below(folder)));
    files
}

/// The entries of a folder; none if it does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|it: char| !it.is_alphanumeric() && it != '_')
}

/// The lines of code, not of comments, that match, as `FILE:LINE: TEXT`.
fn lines_with(files: &[PathBuf], is_so: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let text = read(file);
        let lines = (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.starts_with("//"));
        let lines = lines.filter(|(_, line)| is_so(line));
        found.extend(lines.map(|(number, line)| format!("{}:{number}: {line}", file.display())));
    }
    found
}

fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
