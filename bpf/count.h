// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Counts connections, refusals and bytes. Connections and bytes have one value for all CPUs: a value for each would take
// hundreds of megabytes on large machines, and another access to memory for each connection.

// struct bpf_sock_ops, as far as it is used.
struct socket_operation {
	u32 op, args[4];
	u32 family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port;
	u32 is_fullsock, snd_cwnd, srtt_us, cb_flags;
	u32 statistics[20];
	u64 bytes_received, bytes_acked;
	void *socket;
};
_Static_assert(__builtin_offsetof(struct socket_operation, cb_flags) == 84, "cb_flags");
_Static_assert(__builtin_offsetof(struct socket_operation, bytes_received) == 168, "bytes_received");
_Static_assert(__builtin_offsetof(struct socket_operation, socket) == 184, "socket");

enum { OP_ESTABLISHED = 4, OP_STATE = 10, FLAG_STATE = 4, STATE_CLOSE = 7 };

// The counters of the first pairs are in a map of their own, whose buckets take 64 pages: those of the map for all pairs take a
// thousand, and look-ups there take longer.
INLINE struct traffic *find_traffic(const struct traffic_key *key)
{
	struct traffic *known = bpf_map_lookup_elem(&first_traffic, key);
	return known ? known : bpf_map_lookup_elem(&traffic, key);
}

// An entry of both maps, by two CPUs at the same time, is added up by the reader.
INLINE struct traffic *add_traffic(const struct traffic_key *key)
{
	struct traffic none = {};
	if (bpf_map_update_elem(&first_traffic, key, &none, NO_EXIST))
		bpf_map_update_elem(&traffic, key, &none, NO_EXIST);
	return find_traffic(key);
}

INLINE void count_connection(u64 service, const struct endpoint *endpoint)
{
	struct traffic_key key = { .service = service, .endpoint = *endpoint };
	struct traffic *known = find_traffic(&key);
	if (!known)
		known = add_traffic(&key);
	// Atomic: a task can be preempted by another one on the same CPU.
	if (known)
		__sync_fetch_and_add(&known->connections, 1);
}

INLINE void count_refusal(u64 service)
{
	u64 first = 1;
	u64 *known = bpf_map_lookup_elem(&refusals, &service);
	if (known)
		__sync_fetch_and_add(known, 1);
	else
		bpf_map_update_elem(&refusals, &service, &first, NO_EXIST);
}

// Changes of state are reported only for sockets that are connected to a Service, and after they are established: each report costs
// the connection time.
INLINE void watch_state(struct socket_operation *ctx)
{
	void *socket = ctx->socket;
	if (!socket)
		return;
	struct translation *connection = bpf_sk_storage_get(&connections, socket, 0, 0);
	if (connection && connection->pool)
		bpf_sock_ops_cb_flags_set(ctx, ctx->cb_flags | FLAG_STATE);
}

// Adds the bytes of a closed connection. An entry that was deleted is not created again: its endpoint is gone.
INLINE void count_bytes_of(struct socket_operation *ctx)
{
	void *socket = ctx->socket;
	if (!socket)
		return;
	struct translation *connection = bpf_sk_storage_get(&connections, socket, 0, 0);
	if (!connection || !connection->pool)
		return;
	struct traffic_key key = { .service = connection->service,
		.endpoint = { .address = connection->to, .port = connection->to_port } };
	struct traffic *known = find_traffic(&key);
	if (!known)
		return;
	__sync_fetch_and_add(&known->bytes_out, ctx->bytes_acked);
	__sync_fetch_and_add(&known->bytes_in, ctx->bytes_received);
}
