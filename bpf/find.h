// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// The frontend of a destination, in the maps frontends and own.

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
