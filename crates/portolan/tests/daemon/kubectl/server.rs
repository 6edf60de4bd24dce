//! An API server for the plugin: pods and nodes as a test says, and commands that are answered without being run.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use ring::digest;
use serde_json::{Value, json};

/// What the server has, and what it has seen.
#[derive(Default)]
pub(super) struct World {
    /// Objects and lists by path; what is not here is 404.
    pub(super) objects: BTreeMap<String, Value>,
    /// Paths that are refused with 403.
    pub(super) forbidden: Vec<&'static str>,
    /// Output, errors and exit status of a command in a pod.
    pub(super) commands: BTreeMap<String, (String, String, u8)>,
    pub(super) asked: Vec<String>,
    pub(super) inputs: Vec<Vec<u8>>,
    pub(super) running: usize,
    pub(super) most_at_once: usize,
}

#[derive(Clone)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) world: Arc<Mutex<World>>,
    /// How many commands have to run at the same time before the first of them is answered.
    together: usize,
}

impl Server {
    pub(super) fn start(world: World, together: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self { address, world: Arc::new(Mutex::new(world)), together };
        let serving = server.clone();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (serving, socket) = (serving.clone(), socket.unwrap());
                thread::spawn(move || serving.serve(&socket));
            }
        });
        server
    }

    fn serve(&self, socket: &TcpStream) -> io::Result<()> {
        let mut reader = BufReader::new(socket);
        loop {
            let (url, key) = read_request(&mut reader)?;
            let path = url.split('?').next().unwrap_or_default().to_owned();
            self.world.lock().unwrap().asked.push(url.clone());
            if self.world.lock().unwrap().forbidden.contains(&path.as_str()) {
                reply(socket, 403, &json!({"kind": "Status", "code": 403, "message": format!("{path} is forbidden")}))?;
            } else if path.ends_with("/exec") {
                return self.run(socket, &mut reader, &url, &key);
            } else {
                let found = self.world.lock().unwrap().find(&url);
                match found {
                    Some(object) => reply(socket, 200, &object)?,
                    None => reply(socket, 404, &json!({"kind": "Status", "code": 404, "message": "not found"}))?,
                }
            }
        }
    }

    fn run(&self, socket: &TcpStream, reader: &mut impl Read, url: &str, key: &str) -> io::Result<()> {
        let pod = url.split('/').nth(6).unwrap_or_default().to_owned();
        let (output, errors, status) = self.world.lock().unwrap().commands[&pod].clone();
        let accepted = digest::digest(
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
            format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11").as_bytes(),
        );
        let mut writer = socket;
        write!(
            writer,
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\
             Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n",
            base64(accepted.as_ref())
        )?;
        if url.contains("stdin=true") {
            let input = read_input(reader)?;
            self.world.lock().unwrap().inputs.push(input);
        }
        self.count(1);
        crate::poll::comes_true(|| self.world.lock().unwrap().most_at_once >= self.together);
        self.count(-1);
        write_message(writer, 1, output.as_bytes())?;
        write_message(writer, 2, errors.as_bytes())?;
        let ended = match status {
            0 => json!({"status": "Success"}),
            code => json!({"status": "Failure", "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]}}),
        };
        write_message(writer, 3, ended.to_string().as_bytes())?;
        writer.write_all(&[0x88, 2, 3, 232])
    }

    fn count(&self, change: isize) {
        let mut world = self.world.lock().unwrap();
        world.running = world.running.checked_add_signed(change).unwrap();
        world.most_at_once = world.most_at_once.max(world.running);
    }
}

impl World {
    /// A list of pods is cut to the node that is asked for.
    fn find(&self, url: &str) -> Option<Value> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let mut object = self.objects.get(path)?.clone();
        let node = query.split('&').find_map(|it| it.strip_prefix("fieldSelector=spec.nodeName%3D"));
        let address = query.split('&').find_map(|it| it.strip_prefix("fieldSelector=status.podIP%3D"));
        if let Some(items) = object["items"].as_array_mut() {
            items.retain(|pod| node.is_none_or(|node| pod["spec"]["nodeName"] == node));
            items.retain(|pod| address.is_none_or(|address| pod["status"]["podIP"] == address));
        }
        Some(object)
    }
}

fn read_request(reader: &mut impl BufRead) -> io::Result<(String, String)> {
    let (mut url, mut key) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => return Ok((url, key)),
            line if line.starts_with("GET ") => url = line.split(' ').nth(1).unwrap_or_default().to_owned(),
            line => match line.split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("sec-websocket-key") => key = value.to_owned(),
                _ => {}
            },
        }
    }
}

fn reply(mut socket: &TcpStream, code: u16, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    write!(
        socket,
        "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn write_message(mut socket: &TcpStream, channel: u8, content: &[u8]) -> io::Result<()> {
    let length = u16::try_from(content.len() + 1).unwrap().to_be_bytes();
    socket.write_all(&[&[0x82, 126, length[0], length[1], channel][..], content].concat())
}

/// What the client sends on the channel of standard input, up to its end.
fn read_input(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut input = Vec::new();
    loop {
        let mut head = [0; 2];
        reader.read_exact(&mut head)?;
        let more = match head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mut length = vec![0; more];
        reader.read_exact(&mut length)?;
        let long = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let length = if more > 0 { long } else { usize::from(head[1] & 0x7f) };
        let mut masked = vec![0; length + 4];
        reader.read_exact(&mut masked)?;
        let (mask, content) = masked.split_at(4);
        let content: Vec<u8> = content.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        match content.split_first() {
            Some((0, bytes)) => input.extend_from_slice(bytes),
            Some((255, _)) => return Ok(input),
            _ => {}
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let bits = group.iter().chain([&0, &0]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let digit =
            |index: usize| if index > group.len() { '=' } else { char::from(ALPHABET[bits >> (18 - 6 * index) & 63]) };
        (0..4).map(digit).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}
