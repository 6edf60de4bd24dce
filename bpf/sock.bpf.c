// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
// Services at connect(2), sendmsg(2), recvmsg(2) and getpeername(2), for every process of a cgroup.
//
// A hook translates only what is certain. Everything else it passes on unchanged: the rules behind it serve every Service
// completely. Values are copied at once after a look-up, because a freed element can be reused while it is read.
#include "maps.h"
#include "count.h"
#include "find.h"
#include "forward.h"

INLINE int is_reply(const struct translation *it, const struct destination *from)
{
	return it->pool && it->to_port == from->port && is_same(&it->to, &from->address);
}

INLINE int restore(const struct translation *it, struct destination *from)
{
	from->address = it->from;
	from->port = it->from_port;
	return TRANSLATE;
}

// From the endpoint that sent a message, or is connected, to the frontend.
INLINE int backward(struct socket_address *ctx, struct destination *from, int is_message)
{
	struct translation *connection = bpf_sk_storage_get(&connections, ctx->socket, 0, 0);
	if (connection && is_reply(connection, from))
		return restore(connection, from);
	struct exchanges *known = is_message ? bpf_sk_storage_get(&exchanges, ctx->socket, 0, 0) : 0;
	if (!known)
		return PASS;
#pragma unroll
	for (int i = 0; i < EXCHANGES; i++)
		if (is_reply(&known->recent[i], from))
			return restore(&known->recent[i], from);
	return PASS;
}

INLINE struct destination load4(struct socket_address *ctx)
{
	return (struct destination){ { { 0, 0, MAPPED, ctx->user_ip4 } }, ctx->user_port };
}

INLINE struct destination load6(struct socket_address *ctx)
{
	u32 *word = ctx->user_ip6;
	return (struct destination){ { { word[0], word[1], word[2], word[3] } }, ctx->user_port };
}

INLINE int store4(struct socket_address *ctx, const struct destination *it, int decision)
{
	if (decision != TRANSLATE)
		return decision;
	ctx->user_ip4 = it->address.word[3];
	ctx->user_port = it->port;
	return PASS;
}

INLINE int store6(struct socket_address *ctx, const struct destination *it, int decision)
{
	if (decision != TRANSLATE)
		return decision;
	ctx->user_ip6[0] = it->address.word[0];
	ctx->user_ip6[1] = it->address.word[1];
	ctx->user_ip6[2] = it->address.word[2];
	ctx->user_ip6[3] = it->address.word[3];
	ctx->user_port = it->port;
	return PASS;
}

#define HOOK(name, family, direction, is_message)                                                                      \
	SEC("cgroup/" #name) int name(struct socket_address *ctx)                                                      \
	{                                                                                                              \
		struct destination it = load##family(ctx);                                                             \
		return store##family(ctx, &it, direction(ctx, &it, is_message));                                       \
	}

HOOK(connect4, 4, forward, 0)
HOOK(connect6, 6, forward, 0)
HOOK(sendmsg4, 4, forward, 1)
HOOK(sendmsg6, 6, forward, 1)
HOOK(recvmsg4, 4, backward, 1)
HOOK(recvmsg6, 6, backward, 1)
HOOK(getpeername4, 4, backward, 0)
HOOK(getpeername6, 6, backward, 0)

// The reply is left as it is: another program of the cgroup may have set it.
SEC("sockops") int count_bytes(struct socket_operation *ctx)
{
	if (ctx->op == OP_ESTABLISHED)
		watch_state(ctx);
	else if (ctx->op == OP_STATE && ctx->args[1] == STATE_CLOSE)
		count_bytes_of(ctx);
	return 1;
}

char kernel_license[] SEC("license") = "GPL";
