//! A client with a connected socket of UDP, as most resolvers have, whose endpoint is removed: the time until another endpoint
//! answers it.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::SHOWN_LOG_LINES;
use crate::node::Node;
use crate::resolvers::{self, CLIENT, CLUSTER_IP};
use crate::table::{self, percentile};

const MODES: [&str; 2] = ["nftables", super::MODE];
/// Both modes by turns.
const TURNS: usize = 4;
const PER_TURN: usize = 5;
const TARGET: Duration = Duration::from_secs(1);
const GIVES_UP_AFTER: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_millis(20);
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(5);
/// A flow that is established, with entries of some age.
const BEFORE_REMOVAL: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Times {
    taken: Vec<Duration>,
    /// Sockets that were closed because of an error.
    replaced: usize,
}

/// Whether each client is served in time.
pub(super) fn run() -> bool {
    let node = resolvers::start(MODES[0]);
    let mut times = MODES.map(|_| Times::default());
    let measured = (0..TURNS * MODES.len()).try_for_each(|turn| {
        let which = turn % MODES.len();
        node.change_mode(MODES[which])?;
        if MODES[which] == super::MODE {
            resolvers::wait_for_hook(&node)?;
        }
        node.lab.host(CLIENT).run(|| measure(&node, &mut times[which]))
    });
    show(&mut times);
    let worst = times.iter().flat_map(|times| times.taken.last()).max();
    let has_worked = measured.is_ok() && worst.is_some_and(|time| *time <= TARGET);
    if !has_worked {
        measured.err().into_iter().for_each(|error| println!("  {error}"));
        eprintln!("the end of the daemon's log:\n{}", node.last_log_lines(SHOWN_LOG_LINES));
    }
    has_worked
}

fn measure(node: &Node, times: &mut Times) -> Result<(), String> {
    let mut client = Client::new().map_err(|error| error.to_string())?;
    for _ in 0..PER_TURN {
        let old = client.ask_until(BEFORE_REMOVAL, |_, elapsed| elapsed > BEFORE_REMOVAL / 2)?.0;
        let begin = Instant::now();
        node.write_manifest("dns", &resolvers::manifest(Some(&old)));
        let (_, answered) = client.ask_until(GIVES_UP_AFTER, |name, _| name != old)?;
        times.taken.push(answered - begin);
        node.write_manifest("dns", &resolvers::manifest(None));
    }
    times.replaced += client.replaced;
    Ok(())
}

struct Client {
    socket: UdpSocket,
    replaced: usize,
}

impl Client {
    fn new() -> std::io::Result<Self> {
        Ok(Self { socket: open()?, replaced: 0 })
    }

    /// Asks again and again, until an answer is wanted. Returns the name of its server, and the time.
    fn ask_until(
        &mut self,
        within: Duration,
        is_wanted: impl Fn(&str, Duration) -> bool,
    ) -> Result<(String, Instant), String> {
        let begin = Instant::now();
        while begin.elapsed() < within + GIVES_UP_AFTER {
            if let Some(name) = self.ask().map_err(|error| error.to_string())?
                && is_wanted(&name, begin.elapsed())
            {
                return Ok((name, Instant::now()));
            }
            std::thread::sleep(BETWEEN_QUESTIONS);
        }
        Err(format!("no other endpoint answers within {GIVES_UP_AFTER:?}"))
    }

    /// The name of the server that answers, if one does. A socket with an error is replaced, as resolvers do.
    fn ask(&mut self) -> std::io::Result<Option<String>> {
        let mut buffer = [0; 256];
        let answer = self.socket.send(b"question").and_then(|_| self.socket.recv(&mut buffer));
        match answer {
            Ok(length) => {
                Ok(buffer[..length].split(|it| *it == b' ').next().map(|it| String::from_utf8_lossy(it).into()))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(_) => {
                self.replaced += 1;
                self.socket = open()?;
                Ok(None)
            }
        }
    }
}

fn open() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect((CLUSTER_IP, 53))?;
    socket.set_read_timeout(Some(ANSWER_WITHIN))?;
    Ok(socket)
}

fn show(times: &mut [Times]) {
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let row = |(mode, times): (&&str, &mut Times)| {
        times.taken.sort_unstable();
        let at =
            |share| if times.taken.is_empty() { "-".into() } else { milliseconds(percentile(&times.taken, share)) };
        vec![(*mode).into(), times.taken.len().to_string(), at(0.5), at(1.0), times.replaced.to_string()]
    };
    let rows: Vec<Vec<String>> = MODES.iter().zip(times).map(row).collect();
    table::print(
        "A connected socket of UDP, from the removal of its endpoint until another one answers",
        &["", "removals", "p50", "max", "sockets with an error"],
        &rows,
    );
    println!("  target: at most 1 s");
}
