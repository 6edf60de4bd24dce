//! The program under the name of a kubectl plugin, against a server that speaks the API over real sockets.

mod server;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use server::{Server, World};
use tempfile::TempDir;

const SYSTEM: &str = "/api/v1/namespaces/kube-system/pods";

/// A user with a kubeconfig and the plugin.
struct User {
    folder: TempDir,
    server: Server,
}

struct Answer {
    status: Option<i32>,
    out: String,
    err: String,
}

impl User {
    fn new(world: World) -> Self {
        Self::with(world, 0)
    }

    fn with(world: World, together: usize) -> Self {
        let (folder, server) = (TempDir::new().unwrap(), Server::start(world, together));
        symlink(env!("CARGO_BIN_EXE_portolan"), folder.path().join("kubectl-portolan")).unwrap();
        let user = Self { folder, server };
        let clusters = json!([{"name": "c", "cluster": {"server": format!("http://{}", user.server.address)}}]);
        let contexts = json!([{"name": "c", "context": {"cluster": "c", "user": "u"}}]);
        let config = json!({"current-context": "c", "clusters": clusters, "contexts": contexts});
        fs::write(user.path("config"), config.to_string()).unwrap();
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ask(&self, line: &str) -> Answer {
        self.ask_with(line, &self.path("config").display().to_string())
    }

    fn ask_with(&self, line: &str, kubeconfig: &str) -> Answer {
        let mut command = Command::new(self.path("kubectl-portolan"));
        command.args(line.split_whitespace()).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Answer { status: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// The requests to run a command.
    fn commands(&self) -> Vec<String> {
        let world = self.server.world.lock().unwrap();
        world.asked.iter().filter(|url| url.contains("/exec?")).cloned().collect()
    }
}

fn pod(namespace: &str, name: &str, node: &str, address: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"nodeName": node, "containers": [{"name": "other"}, {"name": "portolan"}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}, {"ip": "fd00::5"}],
            "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// A cluster with Portolan on nodes n01 to nNN, and the pod web-1 on the second of them.
fn cluster(nodes: usize) -> World {
    let names: Vec<String> = (1..=nodes).map(|index| format!("n{index:02}")).collect();
    let own: Vec<Value> =
        names.iter().map(|node| pod("kube-system", &format!("portolan-{node}"), node, "192.0.2.1")).collect();
    let web = pod("default", "web-1", "n02", "10.244.2.5");
    let node = |name: &String| json!({"metadata": {"name": name, "labels": {"kubernetes.io/os": "linux"}}});
    let nodes: Vec<Value> = names.iter().map(node).collect();
    let list = |items: Vec<Value>| json!({"metadata": {}, "items": items});
    let mut objects = BTreeMap::from([
        (SYSTEM.to_owned(), list(own)),
        ("/api/v1/pods".to_owned(), list(vec![web.clone()])),
        ("/api/v1/namespaces/default/pods/web-1".to_owned(), web),
        ("/api/v1/nodes".to_owned(), list(nodes.clone())),
    ]);
    objects.extend(names.iter().zip(nodes).map(|(name, node)| (format!("/api/v1/nodes/{name}"), node)));
    let commands = names.iter().map(|node| (format!("portolan-{node}"), (format!("I am {node}\n"), String::new(), 0)));
    World { objects, commands: commands.collect(), ..World::default() }
}

fn verified(differences: &Value) -> String {
    json!({"mode": "m", "wanted": 7, "differences": differences}).to_string()
}

#[test]
fn a_question_about_a_pod_is_answered_on_its_node() {
    let mut world = cluster(3);
    world.commands.insert("portolan-n02".into(), ("answer\n".into(), "note\n".into(), 1));
    let user = User::new(world);
    let answer = user.ask("explain pod/web-1 svc/api -n default");
    assert_eq!((answer.status, answer.out.as_str(), answer.err.as_str()), (Some(1), "answer\n", "note\n"));
    let command = &user.commands()[0];
    assert!(
        command.starts_with("/api/v1/namespaces/kube-system/pods/portolan-n02/exec?container=portolan&"),
        "{command}"
    );
    let line = "command=portolan&command=explain&command=--source-addresses%3D10.244.2.5\
                &command=--source-addresses%3Dfd00%3A%3A5&command=--on-node&command=--\
                &command=pod%2Fdefault%2Fweb-1&command=svc%2Fdefault%2Fapi";
    assert!(command.ends_with(line), "{command}");
}

#[test]
fn the_node_may_be_found_in_other_ways() {
    let user = User::new(cluster(3));
    let any = "kubectl portolan: the question names no node: n01 answers (--node NAME chooses another one)\n";
    for (line, node, note) in [
        ("explain web-1 web", "n02", ""),
        ("explain 10.244.2.5 10.96.0.1:80", "n02", ""),
        ("explain node/n03 web", "n03", ""),
        ("explain n03 web", "n03", ""),
        ("explain client-ip web", "n01", any),
        ("explain web-1 web --node n03", "n03", ""),
        ("verify --of-pod web-1", "n02", ""),
        ("services --node node/n03", "n03", ""),
        ("connections", "n01", any),
    ] {
        let answer = user.ask(line);
        assert_eq!(
            (answer.status, answer.out, answer.err.as_str()),
            (Some(0), format!("I am {node}\n"), note),
            "{line}"
        );
    }
}

#[test]
fn wrong_names_are_explained() {
    let user = User::new(cluster(3));
    for (line, reason) in [
        ("explain pod/wbe-1 svc/api", "there is no pod \"wbe-1\" in the namespace \"default\""),
        ("explain pod/web-1 svc/api -n shop", "there is no pod \"web-1\" in the namespace \"shop\""),
        ("verify --node n09", "\"n09\" is no node, or has no pod of Portolan; it runs on n01, n02, n03"),
        ("verify --of-pod shop/x", "there is no pod \"x\" in the namespace \"shop\""),
        ("verify --context west", "there is no context \"west\""),
        ("explian a b", "kubectl portolan has no command \"explian\""),
        ("verify --manifests x", "--manifests is for answers from files"),
        ("diff --node n01", "diff compares with files"),
        ("diff --manifests /nonexistent", "reading /nonexistent"),
    ] {
        let answer = user.ask(line);
        assert_eq!((answer.status, answer.out.as_str()), (Some(2), ""), "{line}");
        assert!(answer.err.contains(reason), "{line}: {}", answer.err);
    }
    assert_eq!(user.commands(), [""; 0]);
    let help = user.ask("--help");
    assert_eq!(help.status, Some(0));
    assert!(help.out.contains("kubectl portolan <COMMAND>") && help.out.contains("verify --all-nodes"), "{}", help.out);
}

#[test]
fn portolan_elsewhere_is_found_or_missed_with_a_reason() {
    let mut world = cluster(1);
    world.objects.insert(SYSTEM.into(), json!({"items": []}));
    world.objects.insert(
        "/api/v1/namespaces/net/pods".into(),
        json!({"items": [pod("net", "portolan-n01", "n01", "192.0.2.1")]}),
    );
    let user = User::new(world);
    for line in ["verify", "verify --all-nodes"] {
        let answer = user.ask(line);
        assert_eq!(answer.status, Some(2));
        assert!(
            answer.err.contains("no pod in the namespace kube-system has the labels app.kubernetes.io/name=portolan"),
            "{}",
            answer.err
        );
    }
    let answer = user.ask("verify --portolan-namespace net --portolan-selector app=x --portolan-container other");
    assert_eq!(answer.status, Some(0), "{}", answer.err);
    assert!(user.commands()[0].starts_with("/api/v1/namespaces/net/pods/portolan-n01/exec?container=other&"));
    assert!(user.server.world.lock().unwrap().asked.iter().any(|url| url.contains("labelSelector=app%3Dx")));
}

#[test]
fn a_missing_right_is_named() {
    for (path, line, right) in [
        (SYSTEM, "verify", "the right to list pods in the namespace kube-system"),
        (
            "/api/v1/namespaces/default/pods/web-1",
            "explain web-1 web",
            "the right to get pods in the namespace default",
        ),
        (
            "/api/v1/namespaces/kube-system/pods/portolan-n01/exec",
            "verify",
            "get and create pods/exec in the namespace kube-system",
        ),
    ] {
        let user = User::new(World { forbidden: vec![path], ..cluster(1) });
        let answer = user.ask(line);
        assert_eq!((answer.status, answer.out.as_str()), (Some(2), ""), "{path}");
        assert!(answer.err.contains(right) && answer.err.contains("is forbidden"), "{}", answer.err);
    }
}

#[test]
fn several_kubeconfig_files_count_as_one() {
    let user = User::new(cluster(1));
    fs::write(user.path("first"), json!({"current-context": "c"}).to_string()).unwrap();
    let [first, config, missing] = ["first", "config", "missing"].map(|name| user.path(name).display().to_string());
    let answer = user.ask_with("verify --node n01", &format!("{missing}:{first}::{config}"));
    assert_eq!((answer.status, answer.out.as_str()), (Some(0), "I am n01\n"), "{}", answer.err);
    let answer = user.ask_with(&format!("verify --node n01 --kubeconfig {config}"), &missing);
    assert_eq!(answer.status, Some(0), "{}", answer.err);
    let answer = user.ask_with("verify", &missing);
    assert!(answer.status == Some(2) && answer.err.contains("missing: cannot read"), "{}", answer.err);
}

#[test]
fn all_nodes_are_asked_ten_at_a_time_and_make_one_table() {
    let mut world = cluster(12);
    let differs = json!([{"object": "map services", "kind": "missing", "kernel": null, "plan": "x"}]);
    for (pod, answer) in &mut world.commands {
        *answer = match pod.as_str() {
            "portolan-n07" => (verified(&differs), String::new(), 1),
            _ => (verified(&json!([])), String::new(), 0),
        };
    }
    let user = User::with(world, 10);
    let answer = user.ask("verify --all-nodes");
    assert_eq!((answer.status, answer.err.as_str()), (Some(1), ""), "{}", answer.out);
    let lines: Vec<&str> = answer.out.lines().collect();
    assert_eq!(lines[0], "NODE  MODE  OBJECTS  RESULT");
    assert_eq!(lines[1], "n01   m     7        holds the plan");
    assert_eq!(lines[7], "n07   m     7        1 missing");
    assert_eq!(user.server.world.lock().unwrap().most_at_once, 10);
    let answer: Value = serde_json::from_str(&user.ask("verify --all-nodes -o json").out).unwrap();
    assert_eq!(answer.as_array().unwrap().len(), 12);
    assert_eq!((&answer[6]["node"], &answer[6]["status"]), (&json!("n07"), &json!(1)));
    assert_eq!(answer[6]["answer"]["differences"][0]["kind"], "missing");
}

#[test]
fn a_node_that_cannot_answer_is_a_row_of_the_table() {
    let mut world = cluster(3);
    world.commands.insert("portolan-n01".into(), (verified(&json!([])), String::new(), 0));
    world.commands.insert("portolan-n02".into(), (String::new(), "portolan: no socket\n".into(), 2));
    world.objects.insert(
        "/api/v1/nodes".into(),
        json!({"items": [{"metadata": {"name": "new"}},
        {"metadata": {"name": "windows", "labels": {"kubernetes.io/os": "windows"}}}]}),
    );
    let user = User::new(world);
    let answer = user.ask("verify --all-nodes");
    assert_eq!(answer.status, Some(2));
    for row in [
        "n01   m     7",
        "no answer: exit status 2: portolan: no socket",
        "n03   -     -        no answer: the answer of portolan-n03 is malformed",
    ] {
        assert!(answer.out.contains(row), "{}", answer.out);
    }
    assert!(answer.out.contains("new   -     -        no answer: no pod of Portolan"), "{}", answer.out);
    assert!(!answer.out.contains("windows"), "{}", answer.out);
}

#[test]
fn manifests_of_this_machine_are_compared_on_the_node() {
    let user = User::new(cluster(2));
    fs::create_dir(user.path("folder")).unwrap();
    for (name, text) in
        [("folder/b.yaml", "b: 2\n"), ("folder/a.yml", "a: 1\n"), ("folder/readme.txt", "no"), ("one.json", "{}")]
    {
        fs::write(user.path(name), text).unwrap();
    }
    let line =
        format!("diff --node n02 --manifests {} {}", user.path("folder").display(), user.path("one.json").display());
    let answer = user.ask(&line);
    assert_eq!((answer.status, answer.out.as_str()), (Some(0), "I am n02\n"), "{}", answer.err);
    assert!(user.commands()[0].ends_with("&stdin=true&command=portolan&command=diff&command=--manifests%3D-"));
    assert_eq!(user.server.world.lock().unwrap().inputs, [b"a: 1\n\n---\nb: 2\n\n---\n{}".to_vec()]);
}
