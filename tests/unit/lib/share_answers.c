/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* shares: what is believed of the agent's answer, what is given back where it
 * makes no sense, and what the agent is not asked for. */

#include "tests/support/peer/peer_session.h"

#define SHARE 5u

struct answer {
	struct gm_share_reply reply;
	struct gm_share_buffer buffers[2];
};

static struct answer good_answer(void)
{
	return (struct answer){
		.reply = { .id = SHARE, .uid = 7, .n_buffers = 2 },
		.buffers = { { .id = 1, .bytes = 4096 },
			     { .id = (UINT64_C(1) << 56) | 2,
			       .bytes = 8192,
			       .row = 1 } },
	};
}

/* The last @cut bytes of the answer are missing.  Returns what the call does,
 * and how often the share was given back in @ret_closed. */
static int open_with(const struct answer *answer, uint32_t cut,
		     uint32_t *ret_closed)
{
	struct gpumap_session *session = open_session(16, 0);
	uint32_t closed = gm_get(&peer.closed);
	uint64_t share = 0;
	int ret;

	pthread_mutex_lock(&peer.plan_lock);
	peer.plan_status = 0;
	peer.plan_body = sizeof(answer->reply);
	peer.plan_tail =
		(uint32_t)(sizeof(*answer) - sizeof(answer->reply) - cut);
	memcpy(peer.plan, answer, sizeof(*answer));
	pthread_mutex_unlock(&peer.plan_lock);
	ret = gpumap_share_open(session, "name", 0, NULL, &share);
	*ret_closed = gm_get(&peer.closed) - closed;
	if (ret == 0) {
		EQ(share, SHARE);
		EQ(gpumap_share_close(session, share), 0);
	}
	gpumap_session_close(session);
	return ret;
}

static void a_sound_answer_is_believed(void)
{
	struct answer answer = good_answer();
	uint32_t closed;

	EQ(open_with(&answer, 0, &closed), 0);
	EQ(closed, 0);
	/* The share had ended by itself. */
	gm_put(&peer.refuse, (uint32_t)-ENOENT);
	EQ(open_with(&answer, 0, &closed), 0);
	gm_put(&peer.refuse, 0);
}

static void is_refused(const struct answer *answer, uint32_t cut)
{
	uint32_t closed;

	EQ(open_with(answer, cut, &closed), -EPROTO);
	EQ(closed, 1);
}

static void an_odd_answer_is_given_back(void)
{
	struct answer odd[9];
	uint32_t n = sizeof(odd) / sizeof(odd[0]);

	for (uint32_t i = 0; i < n; i++)
		odd[i] = good_answer();
	odd[0].reply.id = 0;
	odd[1].reply.n_buffers = 0;
	odd[2].reply.n_buffers = 1;
	odd[3].reply.n_buffers = 3;
	odd[4].reply.n_buffers = UINT32_MAX;
	odd[5].reply.about_bytes = 6; /* and no descriptor comes */
	odd[6].buffers[1].id = 0;
	odd[7].buffers[0].bytes = 0;
	odd[8].buffers[1].row = 0;
	for (uint32_t i = 0; i < n; i++)
		is_refused(&odd[i], 0);
	odd[0] = good_answer();
	is_refused(&odd[0], 8);
	is_refused(&odd[0], sizeof(odd[0].buffers));
}

/* Refused here, with the reason. */
static void the_agent_is_not_asked(void)
{
	static const char name[] = "0123456789012345678901234567890123456789"
				   "012345678901234567890123";
	struct gpumap_session *session = open_session(16, 0);
	uint32_t requests = gm_get(&peer.requests);
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = name,
						.n_buffers = 1 };
	uint64_t share, buffer = 1;

	EQ(strlen(name), GPUMAP_NAME_MAX + 1);
	EQ(gpumap_share_open(session, name, 0, NULL, &share), -EINVAL);
	STR(gpumap_refusal(map), "a name has 1 to 63 bytes");
	request.buffers = &buffer;
	EQ(gpumap_share_publish(session, &request, &share), -EINVAL);
	STR(gpumap_refusal(map), "a name has 1 to 63 bytes");
	request.name = "name";
	request.reserved = 1;
	EQ(gpumap_share_publish(session, &request, &share), -EINVAL);
	STR(gpumap_refusal(map), "a reserved field is set");
	request.reserved = 0;
	request.n_buffers = GPUMAP_SHARE_BUFFERS_MAX + 1;
	EQ(gpumap_share_publish(session, &request, &share), -EINVAL);
	STR(gpumap_refusal(map), "a share has 1 to 1024 buffers");
	EQ(gm_get(&peer.requests), requests);
	gpumap_session_close(session);
}

TAP_CASE()
{
	if (!client_begin("shares"))
		return tap_done();
	a_sound_answer_is_believed();
	an_odd_answer_is_given_back();
	the_agent_is_not_asked();
	return client_end();
}
