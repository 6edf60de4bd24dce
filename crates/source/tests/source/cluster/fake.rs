//! A small API server over real sockets, which does on demand what a real one does once a year. It writes HTTP by hand,
//! because half an answer is among the things that it must be able to give.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::protobuf;
use super::world::{Cut, Initial, Seen, Trouble, World};

pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    world: Arc<Mutex<World>>,
    changed: Arc<watch::Sender<()>>,
    /// The certificate of today.
    identity: Arc<Mutex<Option<TlsAcceptor>>>,
}

impl Fake {
    pub(crate) async fn start(world: World) -> Self {
        Self::start_at("127.0.0.1:0", world).await
    }

    pub(crate) async fn start_at(address: &str, world: World) -> Self {
        Self::start_on(TcpListener::bind(address).await.unwrap(), world)
    }

    pub(crate) fn start_on(listener: TcpListener, world: World) -> Self {
        let fake = Self {
            address: listener.local_addr().unwrap(),
            world: Arc::new(Mutex::new(world)),
            changed: Arc::new(watch::Sender::new(())),
            identity: Arc::default(),
        };
        tokio::spawn(fake.clone().accept(listener));
        fake
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Changes something and wakes everybody up.
    pub(crate) fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world());
        self.changed.send_replace(());
    }

    pub(crate) fn identify(&self, identity: TlsAcceptor) {
        *self.identity.lock().unwrap() = Some(identity);
    }

    /// Waits until something happens here.
    pub(crate) async fn until(&self, what: &str, look: impl Fn(&World) -> bool) {
        let mut changed = self.changed.subscribe();
        let wait = async {
            while !look(&self.world()) {
                changed.changed().await.unwrap();
            }
        };
        tokio::time::timeout(super::PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited for {what}"));
    }

    async fn accept(self, listener: TcpListener) {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let fake = self.clone();
            self.world().connections += 1;
            if self.world().down {
                continue;
            }
            let identity = self.identity.lock().unwrap().clone();
            tokio::spawn(async move {
                match identity {
                    None => fake.serve(socket).await,
                    Some(identity) => match identity.accept(socket).await {
                        Ok(socket) => fake.serve(socket).await,
                        Err(_) => fake.change(|world| world.requests.push(Seen::handshake())),
                    },
                }
            });
        }
    }

    async fn serve(&self, mut socket: impl Socket) {
        while let Some(request) = read_request(&mut socket).await {
            self.change(|world| world.requests.push(request.clone()));
            if self.world().silent {
                std::future::pending::<()>().await;
            }
            if self.answer(&mut socket, &request).await.is_none() {
                return;
            }
        }
    }

    /// `None` ends the connection.
    async fn answer(&self, socket: &mut impl Socket, request: &Seen) -> Option<()> {
        let expected = self.world().token.clone().map(|token| format!("Bearer {token}"));
        if expected.is_some() && request.headers.get("authorization") != expected.as_ref() {
            return refuse(socket, 401, "Unauthorized").await;
        }
        let trouble = self.trouble();
        match trouble {
            Trouble::Slow(time) => pause(time).await,
            Trouble::TooMany => return too_many(socket).await,
            Trouble::Garbage => return reply(socket, 200, "application/vnd.kubernetes.protobuf", &noise()).await,
            Trouble::None | Trouble::OneEvent | Trouble::Expires => {}
        }
        if request.method == "POST" {
            return reply(socket, 201, "application/json", b"{}").await;
        }
        let kind = match request.path() {
            "/api/v1/services" => "Service",
            "/apis/discovery.k8s.io/v1/endpointslices" => "EndpointSlice",
            "/api/v1/nodes" => "Node",
            "/api/v1/namespaces" => "Namespace",
            "/api/v1/pods" => "Pod",
            "/apis/networking.k8s.io/v1/servicecidrs" if !self.world().without_ranges => "ServiceCIDR",
            _ => return refuse(socket, 404, "there is no such thing").await,
        };
        match request.parameter("watch") {
            Some(_) => self.watch(socket, request, kind).await,
            None => self.list(socket, request, kind).await,
        }
    }

    async fn flood(&self, socket: &mut impl Socket) -> Option<()> {
        while let Some(events) = { self.world().flood.clone() } {
            write(socket, &chunk(&events)).await?;
            self.world().flooded += 1;
            pause(Duration::from_millis(100)).await;
        }
        Some(())
    }

    /// How this request is treated.
    fn trouble(&self) -> Trouble {
        let mut world = self.world();
        world.troubled += usize::from(world.trouble != Trouble::None);
        world.trouble
    }

    fn takes_protobuf(&self, request: &Seen) -> bool {
        request.headers["accept"].contains("protobuf") && !self.world().json_only
    }

    async fn list(&self, socket: &mut impl Socket, request: &Seen, kind: &str) -> Option<()> {
        let (version, start, items, page) = self.world().page_of(kind, request.parameter("continue"));
        let end = items.len().min(start.saturating_add(page));
        let next = if end < items.len() { format!("{version}-{end}") } else { String::new() };
        if self.takes_protobuf(request) {
            let body = protobuf::list(version, &next, &items[start..end]);
            return reply(socket, 200, "application/vnd.kubernetes.protobuf", &body).await;
        }
        let metadata = json!({"resourceVersion": version.to_string(), "continue": next});
        let body = json!({"kind": format!("{kind}List"), "metadata": metadata, "items": items[start..end]});
        reply(socket, 200, "application/json", &protobuf::text(&body.to_string())).await
    }

    async fn watch(&self, socket: &mut impl Socket, request: &Seen, kind: &str) -> Option<()> {
        let is_initial = request.parameter("sendInitialEvents").is_some();
        let initial = self.world().initial;
        if let (true, Initial::Refused(code)) = (is_initial, initial) {
            return refuse(socket, code, "sendInitialEvents is forbidden for watch").await;
        }
        let mut version: u64 = request.parameter("resourceVersion").map_or(0, |text| text.parse().unwrap());
        let is_gone = !is_initial && version < self.world().compacted;
        if is_gone && !self.world().gone_inside {
            return refuse(socket, 410, "too old resource version").await;
        }
        let protobuf = self.takes_protobuf(request);
        let kind_of_content = if protobuf { "application/vnd.kubernetes.protobuf" } else { "application/json" };
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind_of_content};stream=watch\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        let (mut changed, cuts) = (self.changed.subscribe(), self.world().cuts.0);
        write(socket, head.as_bytes()).await?;
        if is_gone {
            write(socket, &chunk(&event(protobuf, "ERROR", &expired()))).await?;
            return write(socket, b"0\r\n\r\n").await;
        }
        if is_initial {
            let (items, end) = {
                let world = self.world();
                version = world.version;
                (world.of_kind(kind), (initial == Initial::Sent).then(|| bookmark(kind, version, true)))
            };
            for item in &items {
                write(socket, &chunk(&event(protobuf, "ADDED", item))).await?;
            }
            if let Some(end) = end {
                write(socket, &chunk(&event(protobuf, "BOOKMARK", &end))).await?;
            }
        }
        self.follow(socket, kind, protobuf, version, cuts, &mut changed).await
    }

    async fn follow(
        &self,
        socket: &mut impl Socket,
        kind: &str,
        protobuf: bool,
        mut version: u64,
        cuts: u64,
        changed: &mut watch::Receiver<()>,
    ) -> Option<()> {
        loop {
            if kind == "EndpointSlice" {
                self.flood(socket).await?;
            }
            let (news, now, cut, mute) = {
                let world = self.world();
                (world.since(kind, version), world.version, (world.cuts.0 > cuts).then_some(world.cuts.1), world.mute)
            };
            for (_, what, object) in news.iter().filter(|_| !mute && cut.is_none()) {
                let trouble = self.world().trouble;
                if let Trouble::Slow(time) = trouble {
                    pause(time).await;
                }
                write(socket, &chunk(&event(protobuf, what, object))).await?;
                if trouble == Trouble::Expires {
                    write(socket, &chunk(&event(protobuf, "ERROR", &expired()))).await?;
                }
                if matches!(trouble, Trouble::OneEvent | Trouble::Expires) {
                    self.change(|world| world.troubled += 1);
                    return write(socket, b"0\r\n\r\n").await;
                }
            }
            if news.is_empty() && now > version && !mute && cut.is_none() {
                write(socket, &chunk(&event(protobuf, "BOOKMARK", &bookmark(kind, now, false)))).await?;
            }
            version = if cut.is_none() { now } else { version };
            match cut {
                None => {}
                Some(Cut::Clean) => return write(socket, b"0\r\n\r\n").await,
                Some(Cut::Abrupt) => return None,
                Some(Cut::Torn) => {
                    let whole = event(protobuf, "ADDED", &bookmark(kind, now, false));
                    write(socket, &chunk(&whole[..whole.len() / 2])).await?;
                    return None;
                }
            }
            changed.changed().await.ok()?;
        }
    }
}

impl Seen {
    fn handshake() -> Self {
        let nothing = String::new();
        Self { method: nothing.clone(), url: "failed handshake".into(), headers: BTreeMap::new(), body: nothing }
    }

    pub(crate) fn path(&self) -> &str {
        self.url.split('?').next().unwrap()
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let query = self.url.split_once('?').map_or("", |(_, query)| query);
        query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))
    }
}

fn bookmark(kind: &str, version: u64, is_end: bool) -> Value {
    let annotations = if is_end { json!({"k8s.io/initial-events-end": "true"}) } else { json!({}) };
    json!({"kind": kind, "metadata": {"resourceVersion": version.to_string(), "annotations": annotations}})
}

fn expired() -> Value {
    json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
}

/// Frames of a plausible length, full of nonsense.
fn noise() -> Vec<u8> {
    let byte = |index: usize| if index % 64 < 3 { 0 } else { (index * 31 % 251) as u8 };
    (0..1 << 20).map(byte).collect()
}

async fn pause(time: Duration) {
    _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

async fn too_many(socket: &mut impl Socket) -> Option<()> {
    let head = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n";
    write(socket, head.as_bytes()).await
}

fn event(protobuf: bool, kind: &str, object: &Value) -> Vec<u8> {
    if protobuf {
        return protobuf::event(kind, object);
    }
    let mut object = object.clone();
    if object["broken"].is_string() {
        object["spec"] = json!("not a spec");
        object["endpoints"] = json!("not a list");
    }
    protobuf::text(&format!("{}\n", json!({"type": kind, "object": object})))
}

fn chunk(data: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

async fn refuse(socket: &mut impl Socket, code: u16, message: &str) -> Option<()> {
    let status = json!({"kind": "Status", "code": code, "message": message, "reason": "Because"});
    reply(socket, code, "application/json", status.to_string().as_bytes()).await
}

pub(crate) async fn reply(socket: &mut impl Socket, code: u16, content_type: &str, body: &[u8]) -> Option<()> {
    let head = format!("HTTP/1.1 {code} X\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n", body.len());
    write(socket, &[head.as_bytes(), body].concat()).await
}

pub(crate) async fn write(socket: &mut impl Socket, data: &[u8]) -> Option<()> {
    socket.write_all(data).await.ok()?;
    socket.flush().await.ok()
}

pub(crate) async fn read_request(socket: &mut impl Socket) -> Option<Seen> {
    let mut data = Vec::new();
    let end = loop {
        if let Some(end) = data.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        data.push(socket.read_u8().await.ok()?);
    };
    let head = String::from_utf8(data[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, url) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers: BTreeMap<String, String> =
        headers.map(|(key, value)| (key.to_lowercase(), value.to_owned())).collect();
    let length = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some(Seen { method, url, headers, body: String::from_utf8(body).unwrap() })
}
