//! Whole elements, between our objects and the kernel's bytes.

use std::sync::Arc;

use portolan_kernel::nftables::{Element, ElementData};
use portolan_model::Family;

use super::bytes::{Bytes, Reader};
use super::dispatch_key::{DispatchKey, PADDING};
use super::elements::ElementKey;
use super::objects::{Key, Value};
use super::sets::{Data, SetName};

pub(super) fn encode(key: &ElementKey, value: &Value) -> Element {
    let (start, key_end) = key.encode();
    let (data, comment) = match value {
        Value::Verdict(verdict) => (ElementData::Verdict((**verdict).clone()), None),
        Value::Frontend(frontend) => {
            (ElementData::Value(encode_dispatch_key(frontend.dispatch_key)), frontend.comment.clone())
        }
        Value::Endpoint(address, port) => (ElementData::Value(Bytes::default().address(*address).port(*port).0), None),
        Value::Foreign(bytes) => (ElementData::Value(bytes.to_vec()), None),
        Value::Member | Value::Set(_) | Value::Chain(_) => (ElementData::None, None),
    };
    Element { key: start, key_end, data, comment }
}

pub(super) fn decode_object(set: SetName, family: Family, element: Element) -> (Key, Value) {
    let (key, value) = decode(set, family, element);
    (Key::Element(family, set, key), value)
}

pub(super) fn decode(set: SetName, family: Family, element: Element) -> (ElementKey, Value) {
    let key = ElementKey::decode(set, family, &element.key, element.key_end.as_deref());
    let value = match (element.data, set.data()) {
        (ElementData::Verdict(verdict), _) => Value::Verdict(verdict.into()),
        (ElementData::Value(bytes), Data::DispatchKey) => decode_dispatch_key(family, &bytes, element.comment),
        (ElementData::Value(bytes), Data::Endpoint) => decode_endpoint(family, &bytes),
        (ElementData::Value(bytes), _) => Value::Foreign(bytes.into()),
        (ElementData::None, _) => Value::Member,
    };
    (key, value)
}

pub(super) fn encode_dispatch_key(key: DispatchKey) -> Vec<u8> {
    key.encode(Bytes(PADDING.to_vec())).0
}

fn decode_dispatch_key(family: Family, bytes: &[u8], comment: Option<Arc<str>>) -> Value {
    let unpadded = bytes.strip_prefix(&PADDING);
    let key = unpadded.and_then(|bytes| DispatchKey::decode(&mut Reader { bytes, family }));
    key.map_or_else(|| Value::Foreign(bytes.into()), |key| Value::frontend(key, comment))
}

pub(super) fn decode_endpoint(family: Family, bytes: &[u8]) -> Value {
    let mut reader = Reader { bytes, family };
    let endpoint = reader.address().zip(reader.port());
    endpoint.map_or_else(|| Value::Foreign(bytes.into()), |(address, port)| Value::Endpoint(address, port))
}
