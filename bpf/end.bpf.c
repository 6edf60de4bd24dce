// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Ends the connected sockets of UDP, in the network namespace of the iterator, whose endpoint their frontend has no more.
//
// The translation is in the storage of the socket, so that the program touches no field of a socket and needs no type
// information. Needs Linux 6.5 (bpf_sock_destroy).
#include "common.h"

struct map_definition SEC("maps") frontends = FRONTENDS;
struct map_definition SEC("maps") members = MEMBERS;
struct map_definition SEC("maps") own = OWN;
struct map_definition SEC("maps") connections = CONNECTIONS;

#include "find.h"

extern int bpf_sock_destroy(void *socket) __attribute__((section(".ksyms")));

// struct bpf_iter_meta
struct iterator {
	void *file;
};

// struct bpf_iter__udp; the socket is null at the end.
struct udp_iterator {
	struct iterator *meta;
	void *socket;
};

// A new connection through the same frontend could have this endpoint.
INLINE int is_current(const struct translation *connection)
{
	struct destination from = { .address = connection->from, .port = connection->from_port };
	struct frontend *found = find(&from, UDP, connection->is_node, 0);
	if (!found)
		return 0;
	struct decision *it = &found->decision;
	u8 route = connection->is_node ? it->route[1] : it->route[0];
	struct member_key key = { .pool = route == ROUTE_LOCAL ? it->pool[1] : it->pool[0],
		.endpoint = { .address = connection->to, .port = connection->to_port } };
	return route <= ROUTE_LOCAL && bpf_map_lookup_elem(&members, &key);
}

// The output has one octet for each socket that was ended.
SEC("iter/udp")
int end_udp(struct udp_iterator *ctx)
{
	void *socket = ctx->socket;
	if (!socket)
		return 0;
	struct translation *stored = bpf_sk_storage_get(&connections, socket, 0, 0);
	if (!stored || !stored->pool)
		return 0;
	struct translation connection = *stored;
	if (is_current(&connection))
		return 0;
	u8 ended = 1;
	if (!bpf_sock_destroy(socket))
		bpf_seq_write(ctx->meta->file, &ended, 1);
	return 0;
}

char kernel_license[] SEC("license") = "GPL";
