//! From JSON to Kubernetes' protocol buffers, by a table of the published numbers.

use serde_json::Value;

enum Type {
    Text,
    Number,
    Flag,
    Map,
    Message(&'static [Field]),
}

type Field = (&'static str, u32, Type);

use Type::{Flag, Map, Message, Number, Text};

const METADATA: &[Field] = &[
    ("name", 1, Text),
    ("namespace", 3, Text),
    ("uid", 5, Text),
    ("resourceVersion", 6, Text),
    ("deletionTimestamp", 9, Message(&[])),
    ("labels", 11, Map),
    ("annotations", 12, Map),
];
const SERVICE_PORT: &[Field] =
    &[("name", 1, Text), ("protocol", 2, Text), ("port", 3, Number), ("nodePort", 5, Number), ("appProtocol", 6, Text)];
const SERVICE_SPEC: &[Field] = &[
    ("ports", 1, Message(SERVICE_PORT)),
    ("selector", 2, Map),
    ("clusterIP", 3, Text),
    ("type", 4, Text),
    ("externalIPs", 5, Text),
    ("sessionAffinity", 7, Text),
    ("loadBalancerSourceRanges", 9, Text),
    ("externalName", 10, Text),
    ("externalTrafficPolicy", 11, Text),
    ("healthCheckNodePort", 12, Number),
    ("sessionAffinityConfig", 14, Message(&[("clientIP", 1, Message(&[("timeoutSeconds", 1, Number)]))])),
    ("clusterIPs", 18, Text),
    ("internalTrafficPolicy", 22, Text),
];
const INGRESS: &[Field] = &[("ip", 1, Text), ("hostname", 2, Text), ("ipMode", 3, Text)];
const SERVICE_STATUS: &[Field] = &[("loadBalancer", 1, Message(&[("ingress", 1, Message(INGRESS))]))];
const SERVICE: &[Field] =
    &[("metadata", 1, Message(METADATA)), ("spec", 2, Message(SERVICE_SPEC)), ("status", 3, Message(SERVICE_STATUS))];
const NAMESPACE: &[Field] = &[("metadata", 1, Message(METADATA))];
const POD_STATUS: &[Field] = &[("phase", 1, Text), ("podIP", 6, Text), ("podIPs", 12, Message(&[("ip", 1, Text)]))];
const POD: &[Field] = &[("metadata", 1, Message(METADATA)), ("status", 3, Message(POD_STATUS))];
const CONDITIONS: &[Field] = &[("ready", 1, Flag), ("serving", 2, Flag), ("terminating", 3, Flag)];
const NAMED: &[Field] = &[("name", 1, Text)];
const ENDPOINT: &[Field] = &[
    ("addresses", 1, Text),
    ("conditions", 2, Message(CONDITIONS)),
    ("hostname", 3, Text),
    ("targetRef", 4, Message(&[("kind", 1, Text), ("namespace", 2, Text), ("name", 3, Text)])),
    ("nodeName", 6, Text),
    ("zone", 7, Text),
    ("hints", 8, Message(&[("forZones", 1, Message(NAMED)), ("forNodes", 2, Message(NAMED))])),
];
const PORT: &[Field] = &[("name", 1, Text), ("protocol", 2, Text), ("port", 3, Number)];
const SLICE: &[Field] = &[
    ("metadata", 1, Message(METADATA)),
    ("endpoints", 2, Message(ENDPOINT)),
    ("ports", 3, Message(PORT)),
    ("addressType", 4, Text),
];
const NODE_SPEC: &[Field] = &[("podCIDR", 1, Text), ("taints", 5, Message(&[("key", 1, Text)])), ("podCIDRs", 7, Text)];
const NODE: &[Field] = &[
    ("metadata", 1, Message(METADATA)),
    ("spec", 2, Message(NODE_SPEC)),
    ("status", 3, Message(&[("addresses", 5, Message(&[("type", 1, Text), ("address", 2, Text)]))])),
];
const RANGES: &[Field] = &[("metadata", 1, Message(METADATA)), ("spec", 2, Message(&[("cidrs", 1, Text)]))];
const STATUS: &[Field] = &[("message", 3, Text), ("reason", 4, Text), ("code", 6, Number)];

/// The character that is sent as a byte that is not UTF-8.
pub(crate) const INVALID: char = char::REPLACEMENT_CHARACTER;

pub(crate) fn text(text: &str) -> Vec<u8> {
    let mut utf8 = [0; 4];
    let encode = |it: char| if it == INVALID { vec![0xff] } else { it.encode_utf8(&mut utf8).as_bytes().to_vec() };
    text.chars().flat_map(encode).collect()
}

/// The bytes of an object. One that is `broken` gets bytes that cannot be decoded.
pub(crate) fn object(value: &Value) -> Vec<u8> {
    let schema = match value["kind"].as_str() {
        Some("Service") => SERVICE,
        Some("EndpointSlice") => SLICE,
        Some("Node") => NODE,
        Some("ServiceCIDR") => RANGES,
        Some("Namespace") => NAMESPACE,
        Some("Pod") => POD,
        Some("Status") => STATUS,
        other => panic!("there is no table for {other:?}"),
    };
    let metadata = || encode(value, &[("metadata", 1, Message(METADATA))]);
    match value["broken"].as_str() {
        // A field of another type.
        Some("type") => [metadata(), vec![2 << 3, 1]].concat(),
        // A field that is longer than the object.
        Some("length") => [metadata(), vec![2 << 3 | 2, 100]].concat(),
        _ => encode(value, schema),
    }
}

/// An object in its envelope.
pub(crate) fn wrapped(raw: &[u8]) -> Vec<u8> {
    [b"k8s\0".to_vec(), bytes(2, raw)].concat()
}

pub(crate) fn event(kind: &str, object: &Value) -> Vec<u8> {
    let raw = wrapped(&self::object(object));
    let event = [bytes(1, kind.as_bytes()), bytes(2, &bytes(1, &raw))].concat();
    [(event.len() as u32).to_be_bytes().to_vec(), event].concat()
}

pub(crate) fn list(version: u64, next: &str, items: &[Value]) -> Vec<u8> {
    let metadata = [bytes(2, version.to_string().as_bytes()), bytes(3, next.as_bytes())].concat();
    let items = items.iter().flat_map(|item| bytes(2, &object(item)));
    wrapped(&bytes(1, &metadata).into_iter().chain(items).collect::<Vec<u8>>())
}

fn encode(value: &Value, schema: &[Field]) -> Vec<u8> {
    let mut output = Vec::new();
    for (name, number, kind) in schema {
        match &value[*name] {
            Value::Null => {}
            Value::Array(items) => items.iter().for_each(|item| output.extend(field(item, *number, kind))),
            item => output.extend(field(item, *number, kind)),
        }
    }
    output
}

fn field(value: &Value, number: u32, kind: &Type) -> Vec<u8> {
    match kind {
        Text => bytes(number, &text(value.as_str().unwrap())),
        Number => varint(number, value.as_i64().unwrap() as u64),
        Flag => varint(number, value.as_bool().unwrap().into()),
        Message(schema) => bytes(number, &encode(value, schema)),
        Map => {
            let entries = value.as_object().unwrap().iter();
            let entry = |key: &str, value: &str| [bytes(1, &text(key)), bytes(2, &text(value))].concat();
            entries.flat_map(|(key, value)| bytes(number, &entry(key, value.as_str().unwrap()))).collect()
        }
    }
}

fn bytes(number: u32, content: &[u8]) -> Vec<u8> {
    [raw_varint(u64::from(number) << 3 | 2), raw_varint(content.len() as u64), content.to_vec()].concat()
}

fn varint(number: u32, value: u64) -> Vec<u8> {
    [raw_varint(u64::from(number) << 3), raw_varint(value)].concat()
}

fn raw_varint(mut value: u64) -> Vec<u8> {
    let mut output = Vec::new();
    while value >= 0x80 {
        output.push(value as u8 | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
    output
}
