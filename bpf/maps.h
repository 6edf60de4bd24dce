// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The context of the hooks, their maps, and the constants that the loader sets.
#include "common.h"

enum { ECONNREFUSED = 111, ROOT_CGROUP = 1, EXCHANGES = 4 };
// The first two are what a hook returns.
enum { REFUSE = 0, PASS = 1, TRANSLATE = 2 };

// struct bpf_sock_addr
struct socket_address {
	u32 user_family, user_ip4, user_ip6[4], user_port;
	u32 family, type, protocol;
	u32 msg_src_ip4, msg_src_ip6[4];
	void *socket;
};

// The unconnected exchanges of a socket of UDP, the newest first.
struct exchanges {
	struct translation recent[EXCHANGES];
};

struct map_definition SEC("maps") frontends = FRONTENDS;
struct map_definition SEC("maps") endpoints = { MAP_HASH, sizeof(struct endpoint_key), sizeof(struct endpoint), 262144, NO_PREALLOC };
struct map_definition SEC("maps") members = MEMBERS;
struct map_definition SEC("maps") own = OWN;
struct map_definition SEC("maps") namespaces = { MAP_HASH, sizeof(u64), sizeof(u32), 4096, NO_PREALLOC };
struct map_definition SEC("maps") clients = { MAP_LRU_HASH, sizeof(struct client_key), sizeof(struct client), 65536, 0 };
struct map_definition SEC("maps") connections = CONNECTIONS;
struct map_definition SEC("maps") exchanges = { MAP_SK_STORAGE, sizeof(u32), sizeof(struct exchanges), 0, NO_PREALLOC };
struct map_definition SEC("maps") first_traffic = { MAP_HASH, sizeof(struct traffic_key), sizeof(struct traffic), 16384, NO_PREALLOC };
struct map_definition SEC("maps") traffic = { MAP_HASH, sizeof(struct traffic_key), sizeof(struct traffic), 262144, NO_PREALLOC };
struct map_definition SEC("maps") refusals = { MAP_PERCPU_HASH, sizeof(u64), sizeof(u64), 16384, NO_PREALLOC };

// Set by the loader. The verifier removes the branches that a constant excludes.
volatile const u64 host_cookie = 0; // the network namespace of the node
volatile const u32 layout = 3;      // the version of the layouts of the maps; a map whose entries change gets another size or name
volatile const u32 udp_connect = 0; // 1: sockets of UDP are translated when they connect, where they can be ended
volatile const u32 pass_root = 0;   // 1: tasks of the root cgroup are passed on: those of the kernel
volatile const u32 retval = 0;      // 1: bpf_set_retval exists (5.18); without it a refusal is left to the rules
