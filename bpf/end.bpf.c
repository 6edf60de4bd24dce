// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Ends the connected sockets of UDP, in the network namespace of the iterator, whose endpoint is gone.
//
// The endpoint is in the storage of the socket, so that the program touches no field of a kernel structure and needs no
// type information. Needs Linux 6.5 (bpf_sock_destroy).
#include "common.h"

struct map_definition SEC("maps") connections = CONNECTIONS;
// How many sockets were ended, by endpoint.
struct map_definition SEC("maps") gone = { MAP_HASH, sizeof(struct endpoint), sizeof(u64), 65536, NO_PREALLOC };

extern int bpf_sock_destroy(void *socket) __attribute__((section(".ksyms")));

// struct bpf_iter__udp; the socket is null at the end.
struct udp_iterator {
	void *meta;
	void *socket;
};

SEC("iter/udp")
int end_udp(struct udp_iterator *ctx)
{
	void *socket = ctx->socket;
	if (!socket)
		return 0;
	struct translation *connection = bpf_sk_storage_get(&connections, socket, 0, 0);
	if (!connection || !connection->pool)
		return 0;
	struct endpoint key = { .address = connection->to, .port = connection->to_port };
	u64 *ended = bpf_map_lookup_elem(&gone, &key);
	if (!ended)
		return 0;
	*ended += 1;
	bpf_sock_destroy(socket);
	return 0;
}

char kernel_license[] SEC("license") = "GPL";
