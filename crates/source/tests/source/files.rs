//! Files on disk: what is read, what a malformed document does, and what is ignored.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use portolan_source::{Manifests, Options, Report, Watcher};

use crate::common::{find, good, load, named, options, printed, service, shown, web};

struct Directory {
    directory: tempfile::TempDir,
    manifests: Manifests,
}

impl Directory {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = Options { paths: vec![directory.path().to_owned()], ..options() };
        let this = Self { directory, manifests: Manifests::new(options) };
        files.iter().for_each(|(name, text)| this.write(name, text));
        this
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    /// Reloads, and gives the problems without the directory's own name.
    fn reload(&mut self) -> (Report, String) {
        let report = self.manifests.reload();
        let prefix = format!("{}/", self.path().display());
        let printed = printed(&report).replace(&prefix, "");
        (report, printed)
    }
}

/// Documents that are malformed in many ways, each with the line of the error within the document.
const BROKEN: [(&str, u32); 22] = [
    ("kind: Service\nmetadata:\n  name: x\nspec:\n  ports:\n  - port: 70000\n", 6),
    ("kind: Service\nmetadata:\n  name: [x]\nspec:\n  ports: [{port: 80}]\n", 3),
    ("kind: Service\nmetadata:\n  name: x\nspec:\n  ports: 80\n", 5),
    ("kind: Service\nmetadata:\n  name: x\n", 1),
    ("kind: Service\nmetadata:\n  name: x\nspec:\n  ports: [{port: 80}\n", 5),
    ("kind: Service\nmetadata:\n  name: x\n bad: indentation\n", 4),
    ("kind: Service\n\tmetadata: tab\n", 1),
    ("kind: Service\nmetadata:\n  name: \"unclosed\n", 4),
    ("just a text\n", 1),
    ("- a\n- list\n", 1),
    ("metadata:\n  name: x\n", 1),
    ("{\"kind\": \"Service\", \"metadata\": {\"name\": \"x\"},\n \"spec\": {\"ports\": [{\"port\": -1}]}}\n", 2),
    ("{\"kind\": \"Service\",\n \"metadata\": {\"name\": \"x\"\n", 2),
    ("kind: Service\nmetadata:\n  name: x\n  name: y\nspec: {ports: [{port: 80}]}\n", 4),
    ("kind: Service\nmetadata:\n  name: *unknown\n", 3),
    ("kind: EndpointSlice\nmetadata:\n  name: x\n", 1),
    ("kind: EndpointSlice\nmetadata:\n  name: x\naddressType: IPv4\nendpoints:\n- addresses:\n  - 10.0.0.300\n", 7),
    ("kind: Pod\nmetadata:\n  name: x\nstatus:\n  podIP: ten\n", 5),
    ("kind: Node\nmetadata:\n  name: x\nspec:\n  podCIDRs:\n  - 10.0.0.0\n", 6),
    ("kind: Endpoints\nmetadata:\n  name: x\nsubsets:\n- addresses:\n  - ip: 0.0.0.0\n", 6),
    ("kind: Service\nmetadata:\n  name: UPPER\nspec: {ports: [{port: 80}]}\n", 3),
    ("kind: Service\nmetadata:\n  name: x\nspec:\n  ports: &a [*a]\n", 5),
];

#[test]
fn malformed_documents_affect_only_themselves() {
    let mut directory = Directory::new(&[]);
    let mut expected = Vec::new();
    for (index, (broken, line)) in BROKEN.iter().enumerate() {
        let first = named(&format!("before-{index}"), &[]);
        let text = format!(
            "{first}---\n{}---{}",
            broken.replace("name: x", &format!("name: x{index}")),
            &named(&format!("after-{index}"), &[])[3..]
        );
        expected.push((format!("{index:02}.yaml"), first.lines().count() as u32 + 1 + line));
        directory.write(&format!("{index:02}.yaml"), &text);
    }
    let (report, printed) = directory.reload();
    let file_name = |file: &str| Path::new(file).file_name().unwrap().to_string_lossy().into_owned();
    let found: Vec<_> = report.problems.iter().map(|problem| (file_name(&problem.file), problem.line)).collect();
    assert_eq!(found, expected, "{printed}");
    assert_eq!(directory.manifests.snapshot().services.len(), 2 * BROKEN.len(), "{printed}");
}

/// Files of all styles, one of them so large that it is not parsed beforehand.
fn of_many_styles(index: usize) -> String {
    let metadata = format!("{{name: s{index}}}, spec: {{clusterIP: 10.96.1.{index}, ports: [{{port: 80}}]}}");
    match index % 6 {
        0 => named(&format!("s{index}"), &[&format!("clusterIP: 10.96.1.{index}")]),
        1 => format!("kind: List\nitems: [{{kind: Service, metadata: {metadata}}}]\n"),
        2 => format!("kind: List\nitems:\n- {{kind: Service, metadata: {metadata}}}\n"),
        3 => format!("{{\"kind\": \"Service\", \"metadata\": {{\"name\": \"s{index}\"}}}}\n"),
        4 => {
            let comments = "# why\n".repeat(if index == 34 { 900_000 } else { 1 });
            format!("\u{feff}---\nkind: Service\nmetadata:\n  name: s{index}\n{comments}spec: 5\n")
        }
        _ => BROKEN[index % BROKEN.len()].0.to_owned(),
    }
}

#[test]
fn many_files_at_once_are_as_one_after_the_other() {
    let (mut at_once, mut in_turn) = (Directory::new(&[]), Directory::new(&[]));
    for index in 0..36 {
        at_once.write(&format!("{index:02}.yaml"), &of_many_styles(index));
        in_turn.write(&format!("{index:02}.yaml"), &of_many_styles(index));
        in_turn.reload();
    }
    let printed = at_once.reload().1;
    assert_eq!(printed, in_turn.reload().1);
    assert_eq!(printed.lines().count(), 18, "{printed}");
    let (at_once, in_turn) = (at_once.manifests.snapshot(), in_turn.manifests.snapshot());
    assert_eq!(at_once.services.len(), 18);
    assert_eq!(at_once.services, in_turn.services);
}

#[test]
fn the_last_good_version_stays() {
    let mut directory = Directory::new(&[("a.yaml", &(web(&["clusterIP: 10.96.0.7"]) + &named("other", &[])))]);
    directory.reload();
    let before = service(&directory.manifests, "web");
    for broken in [
        web(&["clusterIP: 10.96.0.8", "type: Nonsense"]),
        "---\nkind: Service\nmetadata:\n  name: web\nspec: [\n".to_owned(),
        "---\n]\n".to_owned(),
        web(&["clusterIP: 192.0.2.1"]),
    ] {
        directory.write("a.yaml", &(broken.clone() + &named("new", &[])));
        let (report, printed) = directory.reload();
        assert_eq!((report.problems.len(), report.new_problems.len()), (1, 1), "{broken}\n{printed}");
        assert!(Arc::ptr_eq(&service(&directory.manifests, "web"), &before), "{broken}");
        assert!(find(&directory.manifests, "new").is_some() && find(&directory.manifests, "other").is_none());
        let again = directory.manifests.reload();
        assert_eq!((again.problems.len(), again.new_problems.len(), again.changed), (1, 0, false));
    }
    directory.write("a.yaml", &web(&["clusterIP: 10.96.0.8"]));
    assert_eq!(directory.reload().1, "");
    assert_eq!(service(&directory.manifests, "web").cluster_ips[0].to_string(), "10.96.0.8");
    directory.write("a.yaml", "");
    directory.reload();
    assert!(directory.manifests.snapshot().services.is_empty());
}

#[test]
fn an_object_that_breaks_while_it_moves_to_another_file_stays() {
    let mut directory = Directory::new(&[("b.yaml", &web(&["clusterIP: 10.96.0.7"]))]);
    directory.reload();
    directory.write("a.yaml", &web(&["type: Nonsense"]));
    directory.write("b.yaml", "");
    directory.reload();
    assert_eq!(service(&directory.manifests, "web").cluster_ips[0].to_string(), "10.96.0.7");
}

#[test]
fn only_what_changed_is_new() {
    let mut directory =
        Directory::new(&[("a.yaml", &(web(&[]) + &named("other", &[]))), ("b.yaml", &named("third", &[]))]);
    directory.reload();
    let before = directory.manifests.snapshot();
    directory.write("a.yaml", &(web(&["sessionAffinity: ClientIP"]) + &named("other", &[])));
    assert!(directory.reload().0.changed);
    let after = directory.manifests.snapshot();
    let kept = after.services.iter().filter(|(name, service)| Arc::ptr_eq(service, &before.services[*name]));
    assert_eq!(kept.map(|(name, _)| &*name.name).collect::<Vec<_>>(), ["other", "third"]);
    assert_eq!(after.services.len(), 3);
    directory
        .write("a.yaml", &("# a comment\n".to_owned() + &web(&["sessionAffinity: ClientIP"]) + &named("other", &[])));
    assert!(!directory.reload().0.changed);
}

#[test]
fn slices_keep_their_identity_too() {
    let slice = |name: &str, address: &str| {
        format!(
            "---\nkind: EndpointSlice\nmetadata: {{name: {name}, labels: {{kubernetes.io/service-name: web}}}}\naddressType: IPv4\nendpoints: [{{addresses: [{address}]}}]\n"
        )
    };
    let mut manifests = good(&(slice("a", "10.1.0.1") + &slice("b", "10.1.0.2")));
    let before = crate::common::slices(&manifests, "web");
    assert!(manifests.set_text(&(slice("a", "10.1.0.1") + &slice("b", "10.1.0.3"))).changed);
    let after = crate::common::slices(&manifests, "web");
    assert!(Arc::ptr_eq(&before[0], &after[0]) && !Arc::ptr_eq(&before[1], &after[1]));
    assert!(manifests.set_text(&slice("b", "10.1.0.3")).changed);
    assert_eq!(shown(&manifests, "web"), ["b  10.1.0.3"]);
    assert!(manifests.set_text("").changed);
    assert!(manifests.snapshot().slices.is_empty());
}

#[test]
fn the_first_of_two_definitions_stays() {
    let mut directory = Directory::new(&[("b.yaml", &web(&["clusterIP: 10.96.0.8"]))]);
    directory.reload();
    directory.write("a.yaml", &web(&["clusterIP: 10.96.0.7"]));
    let (report, printed) = directory.reload();
    assert_eq!(report.problems.len(), 1);
    assert!(printed.starts_with("b.yaml:2: Service default/web: already defined at a.yaml:2"), "{printed}");
    assert_eq!(service(&directory.manifests, "web").cluster_ips[0].to_string(), "10.96.0.7");
    fs::remove_file(directory.path().join("a.yaml")).unwrap();
    assert_eq!(directory.reload().1, "");
    assert_eq!(service(&directory.manifests, "web").cluster_ips[0].to_string(), "10.96.0.8");
}

#[test]
fn json_lists_and_other_kinds() {
    let json = |name: &str| {
        format!(
            "{{\"kind\": \"Service\", \"metadata\": {{\"name\": \"{name}\"}}, \"spec\": {{\"ports\": [{{\"port\": 80}}]}}}}"
        )
    };
    let block = "apiVersion: v1\nkind: ServiceList\nitems:\n- metadata:\n    name: f\n  spec:\n    ports:\n    - port: 80\n-\n  metadata: {name: g}\n  spec: {ports: [{port: 0}]}\nmetadata: {}\n";
    let mut directory = Directory::new(&[
        ("a.json", &format!("{}\n{}", json("a"), json("b"))),
        ("b.json", &format!("[{},\n{}]", json("c"), json("d"))),
        ("c.yaml", &format!("{{kind: List, items: [{}]}}\n", json("e"))),
        ("d.yaml", block),
        (
            "e.yaml",
            "kind: List\nitems: []\n---\n---\n# nothing\n---\nnull\n--- # a comment\nkind: Deployment\nmetadata:\n  name: x\n  namespace: y\n",
        ),
        ("f.yaml", "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: h}\n"),
        ("g.json", &format!("{{\"kind\": \"List\", \"items\": [\n{},\n{}]}}", json("i"), json("j").replace("80", "0"))),
        (".hidden.yaml", "]"),
        ("notes.txt", "]"),
    ]);
    fs::create_dir(directory.path().join("directory.yaml")).unwrap();
    let (report, printed) = directory.reload();
    let snapshot = directory.manifests.snapshot();
    assert_eq!(
        snapshot.services.keys().map(|name| &*name.name).collect::<Vec<_>>(),
        ["a", "b", "c", "d", "e", "f", "i"],
        "{printed}"
    );
    assert_eq!(
        printed,
        "d.yaml:11: Service default/g: spec.ports[0].port: 0 is not a port (1 to 65535)\n\
         g.json:3: Service default/j: spec.ports[0].port: 0 is not a port (1 to 65535)\n"
    );
    let ignored: Vec<_> =
        report.ignored.iter().map(|ignored| format!("{} {} {}", ignored.line, ignored.kind, ignored.name)).collect();
    assert_eq!(ignored, ["8 Deployment y/x", "1 Service h"]);
}

#[test]
fn yaml_of_every_style() {
    let text = "# comment\nkind: \"Service\"\nmetadata:\n  name: 'web'\n  annotations:\n    text: |\n      a\n\n      b\n    folded: >-\n      x\n      y\n\
                spec:\n  selector: &labels\n    app: web\n  ports:\n    - port: 80 # the port\n      targetPort: \"http\"\n  publishNotReadyAddresses: yes\n\
                ---\r\nkind: Pod\r\nmetadata:\r\n  name: a\r\n  labels: {app: web}\r\nspec:\r\n  containers:\r\n  - ports: [{name: http, containerPort: 8080}]\r\nstatus: {podIP: 10.1.0.1}\r\n";
    assert_eq!(shown(&good(text), "web"), ["web-v4-0 :8080/tcp 10.1.0.1"]);
}

#[test]
fn a_missing_path_and_an_unreadable_file_are_problems() {
    let mut manifests = Manifests::new(Options { paths: vec![PathBuf::from("/nowhere/at/all")], ..options() });
    assert!(printed(&manifests.reload()).starts_with("/nowhere/at/all: cannot list the path: No such file"));
    let mut directory = Directory::new(&[("a.yaml", &web(&[])), ("b.yaml", &named("other", &[]))]);
    directory.reload();
    fs::write(directory.path().join("a.yaml"), b"\xff\xfe").unwrap();
    let (report, printed) = directory.reload();
    assert!(printed.starts_with("a.yaml: cannot read the file: "), "{printed}");
    assert_eq!((directory.manifests.snapshot().services.len(), report.changed), (2, false));
    fs::remove_file(directory.path().join("a.yaml")).unwrap();
    assert_eq!(directory.reload().1, "");
    assert_eq!(directory.manifests.snapshot().services.len(), 1);
}

#[test]
fn a_directory_that_vanishes_takes_nothing_with_it() {
    let mut directory = Directory::new(&[("a.yaml", &web(&[]))]);
    directory.reload();
    let away = directory.path().with_extension("away");
    fs::rename(directory.path(), &away).unwrap();
    let report = directory.manifests.reload();
    assert_eq!((report.problems.len(), report.changed), (1, false));
    fs::rename(&away, directory.path()).unwrap();
    assert!(directory.manifests.reload().problems.is_empty());
}

#[test]
fn anything_but_a_manifest_leaves_the_watcher_asleep() {
    let directory = Directory::new(&[]);
    let mut watcher = Watcher::new(&[directory.path().to_owned()]).unwrap();
    directory.write(".a.yaml.swp", "x");
    assert!(!watcher.wait(Some(Duration::from_millis(50))).unwrap());
    directory.write("a.yaml", "x");
    assert!(watcher.wait(Some(Duration::from_secs(10))).unwrap());
    assert!(!watcher.wait(Some(Duration::ZERO)).unwrap());
}

/// A ConfigMap's mount: the files are links through `..data`, which is swapped as a whole.
#[test]
fn a_configmap_swap_is_seen() {
    let mut directory = Directory::new(&[]);
    let generation = |number: u32, text: &str| {
        let target = directory.path().join(format!("..{number}"));
        fs::create_dir(&target).unwrap();
        fs::write(target.join("a.yaml"), text).unwrap();
        symlink(format!("..{number}"), directory.path().join("..data_tmp")).unwrap();
        fs::rename(directory.path().join("..data_tmp"), directory.path().join("..data")).unwrap();
    };
    generation(1, &web(&["clusterIP: 10.96.0.7"]));
    symlink("..data/a.yaml", directory.path().join("a.yaml")).unwrap();
    let mut watchers =
        [directory.path().to_owned(), directory.path().join("a.yaml")].map(|path| Watcher::new(&[path]).unwrap());
    generation(2, &web(&["clusterIP: 10.96.0.8"]));
    assert!(watchers.iter_mut().all(|watcher| watcher.wait(Some(Duration::from_secs(10))).unwrap()));
    fs::remove_dir_all(directory.path().join("..1")).unwrap();
    directory.manifests.reload();
    assert_eq!(service(&directory.manifests, "web").cluster_ips[0].to_string(), "10.96.0.8");
}

#[test]
fn a_directory_that_appears_or_is_replaced_is_watched() {
    let outer = tempfile::tempdir().unwrap();
    let inner = outer.path().join("one/two");
    let mut watcher = Watcher::new(std::slice::from_ref(&inner)).unwrap();
    let seen = |watcher: &mut Watcher| watcher.wait(Some(Duration::from_secs(10))).unwrap();
    fs::create_dir_all(&inner).unwrap();
    assert!(seen(&mut watcher));
    fs::write(inner.join("a.yaml"), "x").unwrap();
    assert!(seen(&mut watcher));
    fs::rename(&inner, outer.path().join("one/old")).unwrap();
    fs::create_dir(&inner).unwrap();
    assert!(seen(&mut watcher));
    fs::write(outer.path().join("one/old/a.yaml"), "y").unwrap();
    assert!(!watcher.wait(Some(Duration::from_millis(50))).unwrap());
    fs::write(inner.join("a.yaml"), "z").unwrap();
    assert!(seen(&mut watcher));
}

#[test]
fn an_edited_file_is_noticed_however_soon() {
    let mut directory = Directory::new(&[("a.yaml", &web(&["clusterIP: 10.96.0.1"]))]);
    directory.reload();
    for last in 2..30 {
        directory.write("a.yaml", &web(&[&format!("clusterIP: 10.96.0.{}", last % 8 + 1)]));
        directory.reload();
        assert_eq!(
            service(&directory.manifests, "web").cluster_ips[0].to_string(),
            format!("10.96.0.{}", last % 8 + 1)
        );
    }
}

#[test]
fn the_report_of_a_text_names_its_lines() {
    let (_, report) = load("kind: Service\nmetadata:\n  name: web\nspec:\n  ports:\n  - port: 70000\n");
    assert_eq!(
        printed(&report),
        "text.yaml:6: Service default/web: spec.ports[0].port: 70000 is not a port (1 to 65535)\n"
    );
}

/// Loads the directory in another thread: a reader that hangs must fail the test, and not hang it.
fn reload_in_time(mut directory: Directory) -> (Directory, String) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (_, printed) = directory.reload();
        let _ = sender.send((directory, printed));
    });
    receiver.recv_timeout(Duration::from_secs(30)).expect("reading the manifests ends")
}

#[test]
fn only_regular_files_are_read() {
    let directory = Directory::new(&[("good.yaml", &web(&[]))]);
    let fifo = directory.path().join("fifo.yaml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("socket.yaml")).unwrap();
    symlink("/dev/zero", directory.path().join("device.yaml")).unwrap();
    let (directory, printed) = reload_in_time(directory);
    for (name, kind) in [("fifo.yaml", "a FIFO"), ("socket.yaml", "a socket"), ("device.yaml", "a device")] {
        assert!(printed.contains(&format!("{name}: cannot read the file: it is {kind}")), "{printed}");
    }
    assert_eq!(directory.manifests.snapshot().services.len(), 1, "{printed}");
    assert_eq!(directory.manifests.unreadable().len(), 3);
}

#[test]
fn a_pipe_is_read_where_it_is_named_by_a_command_that_reads_once() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo.yaml");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
    let read = |path: &Path, is_read_once| {
        let mut manifests = Manifests::new(Options { paths: vec![path.to_owned()], is_read_once, ..options() });
        let report = manifests.reload();
        (manifests.snapshot().services.len(), printed(&report))
    };
    let writer = std::thread::spawn({
        let fifo = fifo.clone();
        move || fs::write(fifo, web(&[]))
    });
    assert_eq!(read(&fifo, true), (1, String::new()));
    writer.join().unwrap().unwrap();
    for (path, is_read_once) in [(fifo.as_path(), false), (directory.path(), true)] {
        let (services, printed) = read(path, is_read_once);
        assert!(services == 0 && printed.contains("write its content to a file"), "{printed}");
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let directory = Directory::new(&[("good.yaml", &web(&[]))]);
    // It takes no space on the disk.
    fs::File::create(directory.path().join("huge.yaml")).unwrap().set_len(1 << 40).unwrap();
    let (directory, printed) = reload_in_time(directory);
    assert!(printed.contains("huge.yaml: cannot read the file: it has 1099511627776 bytes"), "{printed}");
    assert_eq!(directory.manifests.snapshot().services.len(), 1, "{printed}");
}

#[test]
fn what_cannot_be_read_is_distinguished_from_what_is_malformed() {
    let mut directory = Directory::new(&[("bad.yaml", "kind: Service\n")]);
    let (report, _) = directory.reload();
    assert_eq!((report.problems.len(), directory.manifests.unreadable().len()), (1, 0));
    let paths = vec![directory.path().join("none"), directory.path().to_owned()];
    let mut manifests = Manifests::new(Options { paths, ..options() });
    manifests.reload();
    let unreadable = manifests.unreadable();
    assert!(unreadable.len() == 1 && unreadable[0].to_string().contains("none"), "{unreadable:?}");
}
