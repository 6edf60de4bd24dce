//! Constants of `linux/netfilter/nf_tables.h` and `nfnetlink.h`.

/// Message types carry the subsystem in their upper byte.
pub(super) const SUBSYSTEM: u16 = 10;
pub(super) const NOTIFICATION_GROUP: u32 = 7;
/// The length of `struct nfgenmsg`, which begins every netfilter message.
pub(super) const PROTOCOL_HEADER: usize = 4;

pub(super) mod message {
    pub(crate) const BATCH_BEGIN: u16 = 0x10;
    pub(crate) const BATCH_END: u16 = 0x11;
    pub(crate) const NEW_TABLE: u16 = 0;
    pub(crate) const GET_TABLE: u16 = 1;
    pub(crate) const DELETE_TABLE: u16 = 2;
    pub(crate) const NEW_CHAIN: u16 = 3;
    pub(crate) const GET_CHAIN: u16 = 4;
    pub(crate) const DELETE_CHAIN: u16 = 5;
    pub(crate) const NEW_RULE: u16 = 6;
    pub(crate) const GET_RULE: u16 = 7;
    pub(crate) const DELETE_RULE: u16 = 8;
    pub(crate) const NEW_SET: u16 = 9;
    pub(crate) const GET_SET: u16 = 10;
    pub(crate) const DELETE_SET: u16 = 11;
    pub(crate) const NEW_ELEMENT: u16 = 12;
    pub(crate) const GET_ELEMENT: u16 = 13;
    pub(crate) const DELETE_ELEMENT: u16 = 14;
    pub(crate) const NEW_GENERATION: u16 = 15;
    pub(crate) const GET_GENERATION: u16 = 16;
    pub(crate) const NEW_OBJECT: u16 = 18;
    pub(crate) const DELETE_OBJECT: u16 = 20;
    pub(crate) const NEW_FLOWTABLE: u16 = 22;
    pub(crate) const DELETE_FLOWTABLE: u16 = 24;
    pub(crate) const DESTROY_ELEMENT: u16 = 30;
}

pub(super) const BATCH_GENERATION: u16 = 1;
pub(super) const GENERATION_ID: u16 = 1;
pub(super) const GENERATION_PROCESS: u16 = 2;
pub(super) const GENERATION_PROCESS_NAME: u16 = 3;
/// Names of objects that only other programs write.
pub(super) const OBJECT_NAME: u16 = 2;
pub(super) const FLOWTABLE_NAME: u16 = 2;
/// Members of a list.
pub(super) const LIST_ELEMENT: u16 = 1;
/// The name of the table, in the messages about tables and about everything in them.
pub(super) const TABLE: u16 = 1;

pub(super) mod chain {
    pub(crate) const NAME: u16 = 3;
    pub(crate) const HOOK: u16 = 4;
    pub(crate) const POLICY: u16 = 5;
    pub(crate) const TYPE: u16 = 7;
    pub(crate) const HOOK_NUMBER: u16 = 1;
    pub(crate) const HOOK_PRIORITY: u16 = 2;
}

pub(super) mod rule {
    pub(crate) const CHAIN: u16 = 2;
    pub(crate) const HANDLE: u16 = 3;
    pub(crate) const EXPRESSIONS: u16 = 4;
    pub(crate) const USER_DATA: u16 = 7;
}

pub(super) mod set {
    pub(crate) const NAME: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const KEY_TYPE: u16 = 4;
    pub(crate) const KEY_LENGTH: u16 = 5;
    pub(crate) const DATA_TYPE: u16 = 6;
    pub(crate) const DATA_LENGTH: u16 = 7;
    pub(crate) const DESCRIPTION: u16 = 9;
    pub(crate) const ID: u16 = 10;
    pub(crate) const TIMEOUT: u16 = 11;
    pub(crate) const USER_DATA: u16 = 13;
    pub(crate) const COUNT: u16 = 20;
    pub(crate) const DESCRIPTION_SIZE: u16 = 1;
    pub(crate) const DESCRIPTION_CONCATENATION: u16 = 2;
    pub(crate) const FIELD_LENGTH: u16 = 1;

    pub(crate) const FLAG_INTERVAL: u32 = 0x4;
    pub(crate) const FLAG_MAP: u32 = 0x8;
    pub(crate) const FLAG_TIMEOUT: u32 = 0x10;
    pub(crate) const FLAG_EVALUATED: u32 = 0x20;
    pub(crate) const FLAG_CONCATENATED: u32 = 0x80;

    pub(crate) const DATA_TYPE_VERDICT: u32 = 0xffff_ff00;
}

pub(super) mod element {
    pub(crate) const LIST_SET: u16 = 2;
    pub(crate) const LIST_ELEMENTS: u16 = 3;

    pub(crate) const KEY: u16 = 1;
    pub(crate) const DATA: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const TIMEOUT: u16 = 4;
    pub(crate) const EXPIRATION: u16 = 5;
    pub(crate) const USER_DATA: u16 = 6;
    pub(crate) const EXPRESSION: u16 = 7;
    pub(crate) const KEY_END: u16 = 10;

    pub(crate) const FLAG_INTERVAL_END: u32 = 1;
    pub(crate) const FLAG_CATCH_ALL: u32 = 2;
    /// A tag of libnftnl, which the `nft` program prints as `comment`.
    pub(crate) const USER_DATA_COMMENT: u8 = 0;
}

pub(super) mod data {
    pub(crate) const VALUE: u16 = 1;
    pub(crate) const VERDICT: u16 = 2;
    pub(crate) const VERDICT_CODE: u16 = 1;
    pub(crate) const VERDICT_CHAIN: u16 = 2;
}

/// The attributes of each kind of expression.
pub(super) mod expression {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const DATA: u16 = 2;

    pub(crate) const PAYLOAD_DESTINATION: u16 = 1;
    pub(crate) const PAYLOAD_BASE: u16 = 2;
    pub(crate) const PAYLOAD_OFFSET: u16 = 3;
    pub(crate) const PAYLOAD_LENGTH: u16 = 4;

    pub(crate) const META_DESTINATION: u16 = 1;
    pub(crate) const META_KEY: u16 = 2;
    pub(crate) const META_SOURCE: u16 = 3;

    pub(crate) const CONNTRACK_DESTINATION: u16 = 1;
    pub(crate) const CONNTRACK_KEY: u16 = 2;
    pub(crate) const CONNTRACK_DIRECTION: u16 = 3;
    pub(crate) const CONNTRACK_ORIGINAL: u8 = 0;
    pub(crate) const CONNTRACK_REPLY: u8 = 1;

    pub(crate) const FIB_DESTINATION: u16 = 1;
    pub(crate) const FIB_RESULT: u16 = 2;
    pub(crate) const FIB_FLAGS: u16 = 3;
    pub(crate) const FIB_RESULT_ADDRESS_TYPE: u32 = 3;

    pub(crate) const COMPARE_SOURCE: u16 = 1;
    pub(crate) const COMPARE_OPERATOR: u16 = 2;
    pub(crate) const COMPARE_DATA: u16 = 3;

    pub(crate) const RANGE_SOURCE: u16 = 1;
    pub(crate) const RANGE_OPERATOR: u16 = 2;
    pub(crate) const RANGE_FROM: u16 = 3;
    pub(crate) const RANGE_TO: u16 = 4;

    /// Of `match` and `target`, by which iptables' extensions run in nf_tables.
    pub(crate) const EXTENSION_NAME: u16 = 1;

    pub(crate) const BITWISE_SOURCE: u16 = 1;
    pub(crate) const BITWISE_DESTINATION: u16 = 2;
    pub(crate) const BITWISE_LENGTH: u16 = 3;
    pub(crate) const BITWISE_MASK: u16 = 4;
    pub(crate) const BITWISE_XOR: u16 = 5;
    pub(crate) const BITWISE_OPERATION: u16 = 6;

    pub(crate) const IMMEDIATE_DESTINATION: u16 = 1;
    pub(crate) const IMMEDIATE_DATA: u16 = 2;

    pub(crate) const LOOKUP_SET: u16 = 1;
    pub(crate) const LOOKUP_SOURCE: u16 = 2;
    pub(crate) const LOOKUP_DESTINATION: u16 = 3;
    pub(crate) const LOOKUP_FLAGS: u16 = 5;
    pub(crate) const LOOKUP_INVERTED: u32 = 1;

    pub(crate) const NUMBER_DESTINATION: u16 = 1;
    pub(crate) const NUMBER_MODULUS: u16 = 2;
    pub(crate) const NUMBER_TYPE: u16 = 3;
    pub(crate) const NUMBER_OFFSET: u16 = 4;

    pub(crate) const HASH_SOURCE: u16 = 1;
    pub(crate) const HASH_DESTINATION: u16 = 2;
    pub(crate) const HASH_LENGTH: u16 = 3;
    pub(crate) const HASH_MODULUS: u16 = 4;
    pub(crate) const HASH_SEED: u16 = 5;
    pub(crate) const HASH_OFFSET: u16 = 6;
    pub(crate) const HASH_TYPE: u16 = 7;
    pub(crate) const HASH_JENKINS: u32 = 0;

    pub(crate) const DYNSET_SET: u16 = 1;
    pub(crate) const DYNSET_OPERATION: u16 = 3;
    pub(crate) const DYNSET_KEY: u16 = 4;
    pub(crate) const DYNSET_DATA: u16 = 5;
    pub(crate) const DYNSET_TIMEOUT: u16 = 6;
    pub(crate) const DYNSET_EXPRESSION: u16 = 7;
    pub(crate) const DYNSET_FLAGS: u16 = 9;
    pub(crate) const DYNSET_EXPRESSIONS: u16 = 10;
    pub(crate) const DYNSET_INVERTED: u32 = 1;

    pub(crate) const COUNTER_BYTES: u16 = 1;
    pub(crate) const COUNTER_PACKETS: u16 = 2;

    pub(crate) const NAT_TYPE: u16 = 1;
    pub(crate) const NAT_FAMILY: u16 = 2;
    pub(crate) const NAT_ADDRESS: u16 = 3;
    pub(crate) const NAT_ADDRESS_END: u16 = 4;
    pub(crate) const NAT_PORT: u16 = 5;
    pub(crate) const NAT_PORT_END: u16 = 6;
    pub(crate) const NAT_FLAGS: u16 = 7;
    pub(crate) const NAT_DESTINATION: u32 = 1;
    pub(crate) const NAT_ADDRESS_GIVEN: u32 = 1;
    pub(crate) const NAT_PORT_GIVEN: u32 = 2;
    pub(crate) const NAT_FULLY_RANDOM: u32 = 0x10;

    pub(crate) const MASQUERADE_FLAGS: u16 = 1;
    pub(crate) const MASQUERADE_PORT: u16 = 2;

    pub(crate) const REJECT_TYPE: u16 = 1;
    pub(crate) const REJECT_CODE: u16 = 2;
}
