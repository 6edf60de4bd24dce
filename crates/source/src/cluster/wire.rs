//! The two encodings of the API: events of a watch, lists, and the envelope of protobuf objects.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::spec::{ListMetadata, Metadata, NamedObject, Status};

/// The magic number in front of every protobuf object.
const MAGIC: &[u8] = b"k8s\0";

/// etcd refuses objects larger than a few megabytes: a longer frame is an error.
const LONGEST_FRAME: usize = 32 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    /// The server decides, whatever was requested.
    pub(super) fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or("").trim() {
            "application/vnd.kubernetes.protobuf" => Some(Self::Protobuf),
            "application/json" => Some(Self::Json),
            _ => None,
        }
    }

    /// An object without its envelope.
    pub(super) fn read<T: Message + Default + DeserializeOwned>(self, object: &Bytes) -> Result<T, String> {
        match self {
            Self::Protobuf => T::decode(object.clone()).map_err(|error| error.to_string()),
            Self::Json => serde_json::from_slice(object).map_err(|error| error.to_string()),
        }
    }

    /// The name and version of an object that is malformed elsewhere.
    pub(super) fn read_name(self, object: &Bytes) -> Option<Metadata> {
        let mut known = NamedObject::default();
        match self {
            // What comes before the malformed part counts.
            Self::Protobuf => _ = known.merge(object.clone()),
            Self::Json => known = serde_json::from_slice(object).ok()?,
        }
        Some(known.metadata.into()).filter(|metadata: &Metadata| !metadata.name.is_empty())
    }

    /// Takes an object out of its envelope. The items of a list have none.
    pub(super) fn unwrap(self, object: &Bytes) -> Result<Bytes, String> {
        match self {
            Self::Protobuf => unwrap(object),
            Self::Json => Ok(object.clone()),
        }
    }

    pub(super) fn read_list(self, body: &Bytes) -> Result<List, String> {
        match self {
            Self::Protobuf => ProtobufList::decode(unwrap(body)?).map(ProtobufList::into).map_err(|it| it.to_string()),
            Self::Json => {
                let body = as_text(body.clone());
                let list = serde_json::from_slice::<JsonList<'_>>(&body).map_err(|it| it.to_string())?;
                Ok(list.cut_from(&body))
            }
        }
    }

    /// The body of an error may be something else than a Status, such as the page of a load balancer.
    pub(super) fn read_status(self, body: &Bytes) -> Status {
        let text =
            || Status { message: String::from_utf8_lossy(&body[..body.len().min(200)]).into(), ..Status::default() };
        let status = self.unwrap(body).and_then(|status| self.read(&status));
        status.unwrap_or_else(|_| text())
    }
}

/// JSON is UTF-8. Other bytes are replaced, so that they cost no more than the field that they are in.
fn as_text(json: Bytes) -> Bytes {
    match str::from_utf8(&json) {
        Ok(_) => json,
        Err(_) => String::from_utf8_lossy(&json).into_owned().into(),
    }
}

fn unwrap(object: &Bytes) -> Result<Bytes, String> {
    if !object.starts_with(MAGIC) {
        return Err("the object does not start with the magic number of Kubernetes protobuf".to_owned());
    }
    let envelope = Envelope::decode(object.slice(MAGIC.len()..)).map_err(|error| error.to_string())?;
    Ok(envelope.raw)
}

#[derive(Message)]
struct Envelope {
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) metadata: ListMetadata,
    pub(super) items: Vec<Bytes>,
}

#[derive(Message)]
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

/// One event of a watch: its type, and the bytes of the object.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) object: Bytes,
}

#[derive(Message)]
struct ProtobufEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, required, tag = "2")]
    object: RawExtension,
}

#[derive(Message)]
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

/// Reassembles events from the chunks of a response body.
#[derive(Debug)]
pub(super) struct Frames {
    encoding: Encoding,
    buffer: BytesMut,
    /// The length of the part that is known to hold no newline.
    searched: usize,
}

impl Frames {
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, buffer: BytesMut::new(), searched: 0 }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Whether there is an incomplete event.
    pub(super) fn is_torn(&self) -> bool {
        self.buffer.iter().any(|byte| !byte.is_ascii_whitespace())
    }

    /// The next complete event. After an error the stream is unusable.
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
        let event = ProtobufEvent::decode(frame).map_err(|error| format!("malformed frame: {error}"))?;
        Ok(Some(Event { kind: event.kind, object: event.object.raw }))
    }

    fn next_json(&mut self) -> Result<Option<Event>, String> {
        let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = check_length(self.buffer.len())?;
            return Ok(None);
        };
        let line = as_text(self.buffer.split_to(self.searched + end + 1).freeze());
        self.searched = 0;
        let event: JsonEvent<'_> = serde_json::from_slice(&line).map_err(|it| format!("malformed event: {it}"))?;
        Ok(Some(Event { object: line.slice_ref(event.object.get().as_bytes()), kind: event.kind }))
    }
}

fn check_length(length: usize) -> Result<usize, String> {
    if length <= LONGEST_FRAME { Ok(length) } else { Err(format!("a frame of {length} bytes is too long")) }
}
