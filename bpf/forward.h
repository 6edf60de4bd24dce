// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// From the frontend that a socket has as its destination to an endpoint.

// One of the two pools of a frontend, whose decision is a copy.
struct choice {
	struct frontend *found;
	struct decision decision;
	int is_local;
	u64 pool;
	u32 count;
};

// The protocol of the frontend; 0: none. A connection of MPTCP is one of TCP to a Service.
INLINE u8 service_protocol(struct socket_address *ctx)
{
	u32 protocol = ctx->protocol;
	if (protocol == TCP || protocol == MPTCP)
		return TCP;
	return protocol == UDP ? UDP : 0;
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

// A frontend whose element is another one's by now has another pool: pools are named after their Service and endpoints.
INLINE int slot_here(const struct choice *it, u32 slot, struct endpoint *chosen)
{
	u32 at = it->is_local ? slot + it->decision.count[0] : slot;
	if (at >= SLOTS)
		return 0;
	chosen->address = it->found->address[at];
	chosen->port = it->found->port[at];
	chosen->zero = 0;
	chosen->zero2 = 0;
	const volatile u64 *pool = &it->found->decision.pool[it->is_local];
	return *pool == it->pool;
}

INLINE int slot_of_pool(u64 pool, u32 slot, struct endpoint *chosen)
{
	struct endpoint_key key = { .pool = pool, .slot = slot };
	struct endpoint *found = bpf_map_lookup_elem(&endpoints, &key);
	if (!found)
		return 0;
	*chosen = *found;
	return 1;
}

// The multiplication selects a slot without a division, and the tracer knows this form.
INLINE int random_endpoint(const struct choice *it, struct endpoint *chosen)
{
	u32 slot = (u64)bpf_get_prandom_u32() * it->count >> 32;
	if (it->decision.flags & HAS_SLOTS)
		return slot_here(it, slot, chosen);
	return slot_of_pool(it->pool, slot, chosen);
}

INLINE int choose(u64 cookie, const struct choice *it, struct endpoint *chosen)
{
	if (!it->decision.affinity)
		return random_endpoint(it, chosen);
	struct client_key key = { .netns_cookie = cookie, .service = it->decision.service };
	u64 now = bpf_ktime_get_ns();
	if (known_endpoint(&key, it->pool, it->decision.affinity, now, chosen))
		return 1;
	if (!random_endpoint(it, chosen))
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
INLINE int translate(struct socket_address *ctx, u64 cookie, const struct choice *it, struct destination *to,
		     int is_message)
{
	void *storage = is_message ? (void *)&exchanges : (void *)&connections;
	void *stored = bpf_sk_storage_get(storage, ctx->socket, 0, STORAGE_CREATE);
	if (!stored || !it->count)
		return PASS;
	if (is_message && repeat(stored, it->pool, to))
		return TRANSLATE;
	struct endpoint chosen;
	if (!choose(cookie, it, &chosen))
		return PASS;
	struct translation newest = { .to = chosen.address, .from = to->address, .to_port = chosen.port,
		.from_port = to->port, .is_node = cookie == host_cookie, .pool = it->pool, .service = it->decision.service };
	if (is_message)
		remember(stored, &newest);
	else
		*(struct translation *)stored = newest;
	count_connection(it->decision.service, &chosen);
	to->address = chosen.address;
	to->port = chosen.port;
	return TRANSLATE;
}

INLINE struct choice choice_of(struct frontend *found, const struct decision *decision, int is_local)
{
	return (struct choice){ .found = found, .decision = *decision, .is_local = is_local,
		.pool = is_local ? decision->pool[1] : decision->pool[0],
		.count = is_local ? decision->count[1] : decision->count[0] };
}

// Whether this namespace is left to the rules: its traffic is redirected inside of it, or the socket could not be ended when
// its endpoint is gone.
INLINE int is_left(u64 cookie, int needs_end)
{
	u32 *known = bpf_map_lookup_elem(&namespaces, &cookie);
	u32 facts = known ? *known : 0;
	return (facts & APART) || (needs_end && !(facts & CAN_END));
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
	struct frontend *found = find(to, protocol, is_node, is_message);
	if (!found)
		return PASS;
	struct decision decision = found->decision;
	if (is_left(cookie, protocol == UDP && !is_message))
		return PASS;
	u8 route = is_node ? decision.route[1] : decision.route[0];
	if (route <= ROUTE_LOCAL) {
		struct choice choice = choice_of(found, &decision, route == ROUTE_LOCAL);
		return translate(ctx, cookie, &choice, to, is_message);
	}
	// Without bpf_set_retval the error is EPERM, which clients do not expect: the rules reject.
	if (route != ROUTE_REJECT || !retval)
		return PASS;
	count_refusal(decision.service);
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
