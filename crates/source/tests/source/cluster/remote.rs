//! Commands in containers, through servers that do what the protocol says and servers that do not.

use std::fs;
use std::io;

use bytes::Bytes;
use portolan_source::cluster::{ApiServer, Choice, Input, Outcome, RemoteCommand, RequestError, ServerOptions, Sink};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc::channel;

use super::PATIENCE;
use super::authority::{Authority, kubeconfig};
use super::remote_server::{Act, Manner, Server, exit, frame, message};

const V5: Manner = Manner { protocol: "v5.channel.k8s.io", refusal: None, wrong_key: false };
const V4: Manner = Manner { protocol: "v4.channel.k8s.io", refusal: None, wrong_key: false };

#[derive(Default)]
struct Kept {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// As after `head`.
    is_unread: bool,
}

impl Sink for Kept {
    fn stdout(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_unread {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.stdout.extend_from_slice(bytes);
        Ok(())
    }

    fn stderr(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stderr.extend_from_slice(bytes);
        Ok(())
    }
}

fn command() -> RemoteCommand {
    RemoteCommand {
        namespace: "kube-system".into(),
        pod: "portolan-1".into(),
        container: "portolan".into(),
        command: vec!["portolan".into(), "verify".into()],
        terminal: false,
        has_input: false,
    }
}

fn plain(server: &Server) -> ApiServer {
    ApiServer::open(ServerOptions { server: Some(format!("http://{}", server.address)), ..ServerOptions::default() })
        .unwrap()
}

/// Runs a command with this input against a server that acts like this.
async fn run(
    manner: Manner,
    acts: Vec<Act>,
    command: RemoteCommand,
    input: Vec<Input>,
) -> (Server, Kept, Result<Outcome, String>) {
    let server = Server::start(manner, acts, None).await;
    let mut kept = Kept::default();
    let outcome = talk(&plain(&server), &command, input, &mut kept).await;
    (server, kept, outcome.map_err(|error| error.to_string()))
}

async fn talk(
    api: &ApiServer,
    command: &RemoteCommand,
    input: Vec<Input>,
    kept: &mut Kept,
) -> Result<Outcome, RequestError> {
    let (sender, receiver) = channel(input.len().max(1));
    for input in input {
        sender.send(input).await.unwrap();
    }
    tokio::time::timeout(PATIENCE, api.run(command, receiver, kept)).await.expect("the command ends")
}

/// What a server sends, and why that is refused.
async fn refused(acts: Vec<Act>, reason: &str) {
    let (_, _, outcome) = run(V5, acts, command(), Vec::new()).await;
    let error = outcome.expect_err(reason);
    assert!(error.contains(reason) && error.contains("portolan-1"), "{error}");
}

#[tokio::test]
async fn output_and_exit_status_are_those_of_the_command() {
    let acts = [
        message(1, b"out "),
        message(2, b"err"),
        message(1, b""),
        message(1, b"more"),
        exit(3),
        frame(0x88, &[3, 232]),
    ];
    let (server, kept, outcome) = run(V5, acts.map(Act::Send).into(), command(), Vec::new()).await;
    assert_eq!(outcome, Ok(Outcome::Exited(3)));
    assert_eq!((kept.stdout.as_slice(), kept.stderr.as_slice()), (&b"out more"[..], &b"err"[..]));
    let requests = server.requests.lock().unwrap();
    assert_eq!(requests[0].path(), "/api/v1/namespaces/kube-system/pods/portolan-1/exec");
    assert!(requests[0].url.ends_with("&stderr=true&tty=false&stdin=false&command=portolan&command=verify"));
    assert_eq!(requests[0].headers["sec-websocket-protocol"], "v5.channel.k8s.io, v4.channel.k8s.io");
}

#[tokio::test]
async fn tls_and_credentials_are_those_of_the_chosen_context() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let authority = Authority::new("cluster");
    let server = Server::start(V5, vec![Act::Send(exit(0))], Some(authority.server(2100, None))).await;
    fs::write(folder.path().join("ca.crt"), authority.pem()).unwrap();
    fs::write(folder.path().join("token"), "secret").unwrap();
    let cluster = json!({"server": format!("https://{}", server.address), "certificate-authority": "ca.crt"});
    let first = kubeconfig(folder.path(), cluster, json!({"tokenFile": "token", "as": "nobody"}));
    // A second file adds a context and cannot change what the first one has.
    let second = other.path().join("more");
    let more = json!({"current-context": "x", "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1"}}],
        "contexts": [{"name": "east", "context": {"cluster": "c", "user": "u", "namespace": "shop"}}]});
    fs::write(&second, more.to_string()).unwrap();
    let choice = Choice {
        context: Some("east".into()),
        as_user: Some("eve".into()),
        as_groups: vec!["ops".into()],
        ..Choice::default()
    };
    let api = ApiServer::open(ServerOptions { kubeconfig: vec![first, second], server: None, choice }).unwrap();
    assert_eq!(api.namespace(), Some("shop"));
    let outcome = talk(&api, &command(), Vec::new(), &mut Kept::default()).await;
    assert_eq!(outcome, Ok(Outcome::Exited(0)));
    let requests = server.requests.lock().unwrap();
    assert_eq!(requests[0].headers["authorization"], "Bearer secret");
    assert_eq!(requests[0].headers["impersonate-user"], "eve");
    assert_eq!(requests[0].headers["impersonate-group"], "ops");
}

#[tokio::test]
async fn a_context_or_user_that_is_none_is_named() {
    let folder = TempDir::new().unwrap();
    let file = kubeconfig(folder.path(), json!({"server": "https://192.0.2.1"}), json!({}));
    let open = |choice: Choice| {
        let options = ServerOptions { kubeconfig: vec![file.clone()], server: None, choice };
        ApiServer::open(options).err().expect("it is refused").to_string()
    };
    let error = open(Choice { context: Some("west".into()), ..Choice::default() });
    assert!(error.ends_with("contexts: there is no context \"west\""), "{error}");
    let error = open(Choice { user: Some("eve".into()), ..Choice::default() });
    assert!(error.ends_with("users: there is no user \"eve\""), "{error}");
    let error = open(Choice { cluster: Some("far".into()), ..Choice::default() });
    assert!(error.contains("there is no cluster \"far\""), "{error}");
}

#[tokio::test]
async fn frames_may_arrive_in_any_pieces() {
    let whole = [message(1, &[7; 70_000]), frame(0x02, b"\x01pie"), frame(0x80, b"ces"), exit(0)].concat();
    let pieces = whole.chunks(997).map(|piece| Act::Send(piece.to_vec())).collect();
    let (_, kept, outcome) = run(V5, pieces, command(), Vec::new()).await;
    assert_eq!(outcome, Ok(Outcome::Exited(0)));
    assert_eq!(kept.stdout.len(), 70_006);
    assert!(kept.stdout.ends_with(b"\x07pieces"));
}

#[tokio::test]
async fn input_is_sent_and_ended() {
    let text: Vec<u8> = (0..200_000).map(|index| (index % 251) as u8).collect();
    let input = vec![Input::Bytes(Bytes::from(text.clone())), Input::End];
    let acts = vec![Act::Await(255), Act::Send(exit(0))];
    let (server, _, outcome) = run(V5, acts, RemoteCommand { has_input: true, ..command() }, input).await;
    assert_eq!(outcome, Ok(Outcome::Exited(0)));
    let mut received = server.received.lock().unwrap().clone();
    assert_eq!(received.pop(), Some(vec![255, 0]));
    assert!(received.iter().all(|message| message[0] == 0 && message.len() <= 32 * 1024 + 1));
    assert_eq!(received.iter().flat_map(|message| &message[1..]).copied().collect::<Vec<u8>>(), text);
}

#[tokio::test]
async fn a_server_of_version_four_runs_terminals_and_refuses_what_needs_an_end() {
    let terminal = RemoteCommand { terminal: true, has_input: true, ..command() };
    let acts = vec![Act::Await(4), Act::Await(0), Act::Send(message(1, b"screen")), Act::Send(exit(0))];
    let input = vec![Input::Resize { columns: 80, rows: 24 }, Input::Bytes(Bytes::from("q"))];
    let (server, kept, outcome) = run(V4, acts, terminal, input).await;
    assert_eq!((outcome, kept.stdout.as_slice()), (Ok(Outcome::Exited(0)), &b"screen"[..]));
    assert_eq!(*server.received.lock().unwrap(), [b"\x04{\"Height\":24,\"Width\":80}".to_vec(), b"\x00q".to_vec()]);
    let (_, _, outcome) = run(V4, vec![Act::Stay], RemoteCommand { has_input: true, ..command() }, Vec::new()).await;
    assert!(outcome.expect_err("too old").contains("v5 came with Kubernetes 1.30"));
}

#[tokio::test]
async fn pings_are_answered() {
    let acts = vec![Act::Send(frame(0x89, b"alive?")), Act::AwaitKind(10), Act::Send(exit(0))];
    let (server, _, outcome) = run(V5, acts, command(), Vec::new()).await;
    assert_eq!(outcome, Ok(Outcome::Exited(0)));
    assert_eq!(*server.received.lock().unwrap(), [b"alive?".to_vec()]);
}

#[tokio::test]
async fn frames_that_are_huge_or_lie_are_refused() {
    let head = |bytes: &[u8]| vec![Act::Send(bytes.to_vec()), Act::Stay];
    refused(head(&[0x82, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), "the limit is 1048576").await;
    refused(head(&[0x82, 127, 0, 0, 0, 0, 0, 0x10, 0, 1]), "a frame of 1048577 bytes").await;
    refused(head(&[0x82, 0x85, 1, 2, 3, 4]), "masked").await;
    refused(head(&[0xf2, 0]), "reserved bits").await;
    refused(head(&[0x87, 0]), "unknown kind 7").await;
    refused(head(&[0x80, 1, 1]), "has not begun").await;
    refused(head(&message(9, b"?")), "channel 9").await;
    refused(head(&message(3, b"not json")), "malformed").await;
    let endless = [
        vec![Act::Send(frame(0x02, b"\x01"))],
        (0..5).map(|_| Act::Send(frame(0, &vec![0; 1 << 20]))).collect(),
        vec![Act::Stay],
    ];
    refused(endless.into_iter().flatten().collect(), "more than 4194304 bytes").await;
}

#[tokio::test]
async fn a_connection_that_ends_early_is_no_success() {
    refused(vec![Act::Send(message(1, b"half"))], "ended before the command did").await;
    refused(vec![Act::Send(message(1, b"half")[..3].to_vec())], "in the middle of a message").await;
    refused(vec![Act::Send(frame(0x88, b"\x03\xf3no\x1b"))], "(code 1011 no)").await;
    refused(Vec::new(), "ended before the command did").await;
}

#[tokio::test]
async fn an_answer_to_another_request_is_refused() {
    let (_, _, outcome) = run(Manner { wrong_key: true, ..V5 }, vec![Act::Stay], command(), Vec::new()).await;
    assert!(outcome.expect_err("another key").contains("not an answer to this request"));
    let (_, _, outcome) = run(Manner { protocol: "v1.x", ..V5 }, vec![Act::Stay], command(), Vec::new()).await;
    assert!(outcome.expect_err("another protocol").contains("\"v1.x\""));
}

#[tokio::test]
async fn a_refusal_has_the_words_of_the_server() {
    let status = json!({"kind": "Status", "code": 403, "message": "pods \"portolan-1\" is forbidden\u{1b}[2J"});
    let server = Server::start(Manner { refusal: Some((403, status)), ..V5 }, Vec::new(), None).await;
    let error = talk(&plain(&server), &command(), Vec::new(), &mut Kept::default()).await.expect_err("forbidden");
    assert!(error.is_forbidden());
    assert!(error.to_string().ends_with("the API server answers 403: pods \"portolan-1\" is forbidden [2J"), "{error}");
}

#[tokio::test]
async fn a_reader_that_goes_ends_the_command() {
    let server = Server::start(V5, vec![Act::Send(message(1, b"line\n")), Act::Stay], None).await;
    let mut kept = Kept { is_unread: true, ..Kept::default() };
    assert_eq!(talk(&plain(&server), &command(), Vec::new(), &mut kept).await, Ok(Outcome::Unread));
}
