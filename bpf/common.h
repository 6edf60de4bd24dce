// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Types, map layouts and helpers of the programs. Nothing here comes from headers of the machine, so that the same
// compiler builds the same bytes everywhere.
//
// Addresses and ports are in network byte order, all other numbers in that of the host. Both families have one form: 16
// bytes, with IPv4 as ::ffff:a.b.c.d. So a socket of IPv6 that connects to a mapped address needs no code of its own.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u16 be16;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static __attribute__((always_inline)) inline

// Helpers, by their number in the kernel's interface.
static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*bpf_get_prandom_u32)(void) = (void *)7;
static long (*bpf_sock_ops_cb_flags_set)(void *ctx, int flags) = (void *)59;
static u64 (*bpf_get_current_cgroup_id)(void) = (void *)80;
static void *(*bpf_sk_storage_get)(void *map, void *socket, void *value, u64 flags) = (void *)107;
static u64 (*bpf_get_netns_cookie)(void *ctx) = (void *)122;
static long (*bpf_seq_write)(void *file, const void *data, u32 length) = (void *)127;
static int (*bpf_set_retval)(int retval) = (void *)187;

enum { MAP_HASH = 1, MAP_PERCPU_HASH = 5, MAP_LRU_HASH = 9, MAP_SK_STORAGE = 24 };
enum { NO_PREALLOC = 1, NO_EXIST = 1, STORAGE_CREATE = 1 };

enum { TCP = 6, UDP = 17, MPTCP = 262 };
// The third word of a mapped address, ::ffff:0:0.
enum { MAPPED = 0xffff0000 };

// A map as plain bytes in the section "maps".
struct map_definition {
	u32 type, key_size, value_size, max_entries, flags;
};

struct address {
	u32 word[4];
};

// The scopes of node ports stand for any address of the node in one family; their address is zero. Port 0 with protocol 0 is every other port of
// the address.
struct frontend_key {
	struct address address;
	be16 port;
	u8 protocol;
	u8 scope;
};
enum { SCOPE_ADDRESS = 0, SCOPE_NODE_PORT4 = 1, SCOPE_NODE_PORT6 = 2 };

// All that one decision needs, replaced in one step. Pools, counts: cluster, local. Routes: for pods, for the node.
struct decision {
	u64 pool[2];
	u32 count[2];
	u64 service;
	u32 affinity; // seconds; 0: none
	u8 route[2];
	u8 flags;
	u8 zero;
};
enum { ROUTE_CLUSTER = 0, ROUTE_LOCAL = 1, ROUTE_REJECT = 2, ROUTE_PASS = 3 };
enum { HAS_SLOTS = 1 };

// With HAS_SLOTS, the slots of the cluster pool and then those of the local pool are here, and a decision needs one look-up. The sizes
// are such that an element takes three cache lines, of which the addresses fill the last.
enum { SLOTS = 4 };
struct frontend {
	struct decision decision;
	be16 port[SLOTS];
	struct address address[SLOTS];
};

struct endpoint_key {
	u64 pool;
	u32 slot, zero;
};

struct endpoint {
	struct address address;
	be16 port;
	u16 zero;
	u32 zero2;
};

// The endpoints of pools whose Service has session affinity or is one of UDP: an endpoint that a client has, or that a socket
// is connected to, is used only while it is a member of the pool.
struct member_key {
	u64 pool;
	struct endpoint endpoint;
};

// Whose an address of the node is: that of every namespace, or of the node's own only (loopback).
enum { OWN_ANYWHERE = 1, OWN_NODE = 2 };

// What the daemon knows about a network namespace: that its sockets can be ended, or that its traffic is redirected inside of it,
// as by a service mesh.
enum { CAN_END = 1, APART = 2 };

// A client is a network namespace: a pod, or the node.
struct client_key {
	u64 netns_cookie;
	u64 service;
};
struct client {
	struct endpoint endpoint;
	u64 seen_ns;
};

// What a socket was translated to. Pool 0: nothing.
struct translation {
	struct address to, from;
	be16 to_port, from_port;
	u32 is_node; // 1: a socket of the node
	u64 pool;
	u64 service;
};

struct traffic_key {
	u64 service;
	struct endpoint endpoint;
};
struct traffic {
	u64 connections, bytes_out, bytes_in;
};

_Static_assert(sizeof(struct frontend_key) == 20, "frontend_key");
_Static_assert(sizeof(struct decision) == 40, "decision");
_Static_assert(sizeof(struct frontend) == 112, "frontend");
_Static_assert(sizeof(struct endpoint_key) == 16, "endpoint_key");
_Static_assert(sizeof(struct endpoint) == 24, "endpoint");
_Static_assert(sizeof(struct member_key) == 32, "member_key");
_Static_assert(sizeof(struct client) == 32, "client");
_Static_assert(sizeof(struct translation) == 56, "translation");
_Static_assert(sizeof(struct traffic_key) == 32, "traffic_key");

// Both objects use these maps. The translation of a connected socket lives and dies with the socket.
#define FRONTENDS { MAP_HASH, sizeof(struct frontend_key), sizeof(struct frontend), 131072, NO_PREALLOC }
#define MEMBERS { MAP_HASH, sizeof(struct member_key), sizeof(u32), 262144, NO_PREALLOC }
#define OWN { MAP_HASH, sizeof(struct address), sizeof(u32), 1024, NO_PREALLOC }
#define CONNECTIONS { MAP_SK_STORAGE, sizeof(u32), sizeof(struct translation), 0, NO_PREALLOC }
