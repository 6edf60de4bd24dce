// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// From the frontend that a socket has as its destination to an endpoint.

// A destination as the socket has it, and after the translation.
struct destination {
	struct address address;
	be16 port;
};

INLINE int is_same(const struct address *one, const struct address *other)
{
	return one->word[0] == other->word[0] && one->word[1] == other->word[1] && one->word[2] == other->word[2] &&
	       one->word[3] == other->word[3];
}

INLINE u8 node_port_scope(const struct address *it)
{
	int is_ipv4 = !it->word[0] && !it->word[1] && it->word[2] == MAPPED;
	return is_ipv4 ? SCOPE_NODE_PORT4 : SCOPE_NODE_PORT6;
}

// The protocol of the frontend; 0: none. A connection of MPTCP is one of TCP to a Service.
INLINE u8 service_protocol(struct socket_address *ctx)
{
	u32 protocol = ctx->protocol;
	if (protocol == TCP || protocol == MPTCP)
		return TCP;
	return protocol == UDP ? UDP : 0;
}

// The frontend with this address and port; else the node port, on an address of the node; else the whole address.
//
// The whole address is not looked up for connect(2) of UDP: resolvers connect such sockets to any port, 0 or 9, and send
// nothing, to see which source address the kernel selects.
INLINE struct frontend *find(const struct destination *to, u8 protocol, int is_node, int is_message)
{
	struct frontend_key key = { .address = to->address, .port = to->port, .protocol = protocol };
	struct frontend *found = bpf_map_lookup_elem(&frontends, &key);
	if (found)
		return found;
	u32 *whose = bpf_map_lookup_elem(&own, &to->address);
	if (whose && (*whose == OWN_ANYWHERE || is_node)) {
		struct frontend_key node_port = { .port = to->port, .protocol = protocol,
			.scope = node_port_scope(&to->address) };
		found = bpf_map_lookup_elem(&frontends, &node_port);
		if (found)
			return found;
	}
	if (protocol == UDP && !is_message)
		return 0;
	struct frontend_key address = { .address = to->address };
	return bpf_map_lookup_elem(&frontends, &address);
}

// The endpoint that the client has, if its time is not over and the pool still has it. Its time starts again.
INLINE int known_endpoint(const struct client_key *key, u64 pool, u32 affinity, u64 now, struct endpoint *chosen)
{
	struct client *known = bpf_map_lookup_elem(&clients, key);
	if (!known || now - known->seen_ns >= affinity * 1000000000ull)
		return 0;
	struct member_key member = { .pool = pool, .endpoint = known->endpoint };
	if (!bpf_map_lookup_elem(&members, &member))
		return 0;
	known->seen_ns = now;
	*chosen = member.endpoint;
	return 1;
}

// The multiplication selects a slot without a division, and the tracer knows this form.
INLINE int random_endpoint(u64 pool, u32 count, struct endpoint *chosen)
{
	struct endpoint_key key = { .pool = pool, .slot = (u64)bpf_get_prandom_u32() * count >> 32 };
	struct endpoint *found = bpf_map_lookup_elem(&endpoints, &key);
	if (!found)
		return 0;
	*chosen = *found;
	return 1;
}

INLINE int choose(u64 cookie, const struct frontend *frontend, u64 pool, u32 count, struct endpoint *chosen)
{
	if (!frontend->affinity)
		return random_endpoint(pool, count, chosen);
	struct client_key key = { .netns_cookie = cookie, .service = frontend->service };
	u64 now = bpf_ktime_get_ns();
	if (known_endpoint(&key, pool, frontend->affinity, now, chosen))
		return 1;
	if (!random_endpoint(pool, count, chosen))
		return 0;
	struct client client = { .endpoint = *chosen, .seen_ns = now };
	bpf_map_update_elem(&clients, &key, &client, 0);
	return 1;
}

// An unconnected socket keeps its endpoint while the pool is the same: an endpoint for each message breaks QUIC and SIP.
INLINE int repeat(struct exchanges *exchanges, u64 pool, struct destination *to)
{
#pragma unroll
	for (int i = 0; i < EXCHANGES; i++) {
		struct translation *it = &exchanges->recent[i];
		if (it->pool == pool && it->from_port == to->port && is_same(&it->from, &to->address)) {
			to->port = it->to_port;
			to->address = it->to;
			return 1;
		}
	}
	return 0;
}

INLINE void remember(struct exchanges *exchanges, const struct translation *newest)
{
	exchanges->recent[3] = exchanges->recent[2];
	exchanges->recent[2] = exchanges->recent[1];
	exchanges->recent[1] = exchanges->recent[0];
	exchanges->recent[0] = *newest;
}

// Chooses an endpoint, and stores the translation with the socket: for as long as it is connected, or for its replies.
INLINE int translate(struct socket_address *ctx, u64 cookie, const struct frontend *frontend, int is_local,
		     struct destination *to, int is_message)
{
	u64 pool = is_local ? frontend->pool[1] : frontend->pool[0];
	u32 count = is_local ? frontend->count[1] : frontend->count[0];
	void *storage = is_message ? (void *)&exchanges : (void *)&connections;
	void *stored = bpf_sk_storage_get(storage, ctx->socket, 0, STORAGE_CREATE);
	if (!stored || !count)
		return PASS;
	if (is_message && repeat(stored, pool, to))
		return TRANSLATE;
	struct endpoint chosen;
	if (!choose(cookie, frontend, pool, count, &chosen))
		return PASS;
	struct translation newest = { .to = chosen.address, .from = to->address, .to_port = chosen.port,
		.from_port = to->port, .pool = pool, .service = frontend->service };
	if (is_message)
		remember(stored, &newest);
	else
		*(struct translation *)stored = newest;
	count_connection(frontend->service, &chosen);
	to->address = chosen.address;
	to->port = chosen.port;
	return TRANSLATE;
}

INLINE int decide(struct socket_address *ctx, struct destination *to, int is_message)
{
	u8 protocol = service_protocol(ctx);
	if (!protocol || (protocol == UDP && !is_message && !udp_connect))
		return PASS;
	if (pass_root && bpf_get_current_cgroup_id() == ROOT_CGROUP)
		return PASS;
	u64 cookie = bpf_get_netns_cookie(ctx);
	int is_node = cookie == host_cookie;
	if (host_only && !is_node)
		return PASS;
	struct frontend *found = find(to, protocol, is_node, is_message);
	if (!found)
		return PASS;
	struct frontend frontend = *found;
	if (bpf_map_lookup_elem(&apart, &cookie))
		return PASS;
	u8 route = is_node ? frontend.route[1] : frontend.route[0];
	if (route <= ROUTE_LOCAL)
		return translate(ctx, cookie, &frontend, route == ROUTE_LOCAL, to, is_message);
	// Without bpf_set_retval the error is EPERM, which clients do not expect: the rules reject.
	if (route != ROUTE_REJECT || !retval)
		return PASS;
	count_refusal(frontend.service);
	bpf_set_retval(-ECONNREFUSED);
	return REFUSE;
}

// A socket that was connected to a Service and is now connected to another address has no translation any more.
INLINE void forget(struct socket_address *ctx)
{
	struct translation *connection = bpf_sk_storage_get(&connections, ctx->socket, 0, 0);
	if (connection)
		connection->pool = 0;
}

INLINE int forward(struct socket_address *ctx, struct destination *to, int is_message)
{
	int decision = decide(ctx, to, is_message);
	if (decision == PASS && !is_message)
		forget(ctx);
	return decision;
}
