//! The two encodings of the API: how a watch is cut into events, and what objects are wrapped in.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::messages::{ListMetadata, Status};

/// What precedes every object in protocol buffers.
const MAGIC: &[u8] = b"k8s\0";

/// etcd takes no object larger than a few megabytes; a longer frame is not one of ours.
const LONGEST_FRAME: usize = 32 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    /// Goes by what the server says it sends, whatever was asked for.
    pub(super) fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or("").trim() {
            "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }

    pub(super) fn read<T: Message + Default + DeserializeOwned>(self, object: &Bytes) -> Result<T, String> {
        match self {
            Self::Protobuf => T::decode(unwrap(object)?).map_err(|error| error.to_string()),
            Self::Json => serde_json::from_slice(object).map_err(|error| error.to_string()),
        }
    }

    /// The items of a list stand for themselves, without what wraps a single object.
    pub(super) fn read_list(self, body: &Bytes) -> Result<List, String> {
        match self {
            Self::Protobuf => ProtobufList::decode(unwrap(body)?).map(ProtobufList::into).map_err(|it| it.to_string()),
            Self::Json => serde_json::from_slice::<JsonList<'_>>(body)
                .map(|list| list.cut_from(body))
                .map_err(|it| it.to_string()),
        }
    }

    pub(super) fn read_item<T: Message + Default + DeserializeOwned>(self, item: &Bytes) -> Result<T, String> {
        match self {
            Self::Protobuf => T::decode(item.clone()).map_err(|error| error.to_string()),
            Self::Json => self.read(item),
        }
    }

    /// An error may come as JSON or as something that is no object at all, such as a load balancer's page.
    pub(super) fn read_status(self, body: &Bytes) -> Status {
        let text =
            || Status { message: String::from_utf8_lossy(&body[..body.len().min(200)]).into(), ..Status::default() };
        self.read(body).unwrap_or_else(|_| text())
    }
}

/// Takes an object out of its envelope.
fn unwrap(object: &Bytes) -> Result<Bytes, String> {
    if !object.starts_with(MAGIC) {
        return Err("the object lacks the mark that begins every protobuf object of Kubernetes".to_owned());
    }
    let envelope = Envelope::decode(object.slice(MAGIC.len()..)).map_err(|error| error.to_string())?;
    Ok(envelope.raw)
}

#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) metadata: ListMetadata,
    pub(super) items: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtobufList {
    #[prost(message, required, tag = "1")]
    metadata: ListMetadata,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    items: Vec<Bytes>,
}

impl From<ProtobufList> for List {
    fn from(list: ProtobufList) -> Self {
        Self { metadata: list.metadata, items: list.items }
    }
}

#[derive(Deserialize)]
struct JsonList<'a> {
    #[serde(default)]
    metadata: ListMetadata,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

impl JsonList<'_> {
    fn cut_from(self, body: &Bytes) -> List {
        let items = self.items.unwrap_or_default();
        let items = items.iter().map(|item| body.slice_ref(item.get().as_bytes())).collect();
        List { metadata: self.metadata, items }
    }
}

/// One event of a watch: what happened, and the object's bytes.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) object: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct ProtobufEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, required, tag = "2")]
    object: RawExtension,
}

#[derive(Clone, PartialEq, Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Cuts what arrives into events, wherever the network has cut it before.
#[derive(Debug)]
pub(super) struct Frames {
    encoding: Encoding,
    buffer: BytesMut,
    /// How much of the buffer is known to hold no end of line.
    searched: usize,
}

impl Frames {
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, buffer: BytesMut::new(), searched: 0 }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Whether the stream ended in the middle of an event.
    pub(super) fn is_torn(&self) -> bool {
        self.buffer.iter().any(|byte| !byte.is_ascii_whitespace())
    }

    /// The next whole event, if there is one. An error leaves the stream unusable.
    pub(super) fn next(&mut self) -> Result<Option<Event>, String> {
        match self.encoding {
            Encoding::Protobuf => self.next_protobuf(),
            Encoding::Json => self.next_json(),
        }
    }

    fn next_protobuf(&mut self) -> Result<Option<Event>, String> {
        let Some(length) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = check_length(u32::from_be_bytes(*length) as usize)?;
        if self.buffer.len() < 4 + length {
            self.buffer.reserve(4 + length - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(4);
        let frame = self.buffer.split_to(length).freeze();
        let event = ProtobufEvent::decode(frame).map_err(|error| format!("a frame is no event: {error}"))?;
        Ok(Some(Event { kind: event.kind, object: event.object.raw }))
    }

    fn next_json(&mut self) -> Result<Option<Event>, String> {
        let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = check_length(self.buffer.len())?;
            return Ok(None);
        };
        let line = self.buffer.split_to(self.searched + end + 1).freeze();
        self.searched = 0;
        let event: JsonEvent<'_> = serde_json::from_slice(&line).map_err(|it| format!("a line is no event: {it}"))?;
        Ok(Some(Event { object: line.slice_ref(event.object.get().as_bytes()), kind: event.kind }))
    }
}

fn check_length(length: usize) -> Result<usize, String> {
    if length <= LONGEST_FRAME { Ok(length) } else { Err(format!("a frame of {length} bytes is no event")) }
}
