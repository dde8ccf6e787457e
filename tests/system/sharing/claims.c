/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A share is what its fingerprint says, and one of several sessions makes it:
 * the others wait, whatever becomes of the one that makes it, and none gets
 * another content than it asked for.
 */

#include "tests/support/share_sessions.h"

#define NAME   "engine/rank0"
#define MAKERS 6

static const char fields[] = "model=llama\ndtype=bf16\nrank=0\n";

static struct gpumap_fingerprint print(int seed, const char *text)
{
	struct gpumap_fingerprint f = { .size = sizeof(f), .fields = text };

	memset(f.hash, seed, sizeof(f.hash));
	return f;
}

static int share_as(struct gpumap_session *session, const char *name,
		    const struct gpumap_fingerprint *f, uint64_t *ret_buffer,
		    uint64_t *ret_share)
{
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = name,
						.buffers = ret_buffer,
						.n_buffers = 1,
						.fingerprint = f };
	int ret = make(session, 0, 7, ret_buffer);

	return ret ? ret : gpumap_share_publish(session, &request, ret_share);
}

/* ---- fingerprints ------------------------------------------------------- */

static void refused(struct gpumap_session *session, int seed, const char *text,
		    const char *words)
{
	struct gpumap_fingerprint other = print(seed, text);
	uint64_t id;

	EQ(gpumap_share_open(session, NAME, 0, &other, &id), -EKEYREJECTED);
	if (!OK(strstr(gpumap_refusal(map), words)))
		NOTE("%s", gpumap_refusal(map));
}

static void another_content_is_refused(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *other = session_open(map);
	struct gpumap_fingerprint f = print(0xab, fields);
	struct gpumap_share_info info = { .size = sizeof(info) };
	uint64_t buffer, id, seen;

	EQ(share_as(owner, NAME, &f, &buffer, &id), 0);
	refused(other, 1, "model=llama\ndtype=fp16\nrank=0\n",
		"dtype is \"bf16\", and \"fp16\"");
	refused(other, 1, "model=llama\ndtype=bf16\nrank=0",
		"rank is \"0\""); /* without an end */
	refused(other, 1, "model=llama\nquant=awq\ndtype=bf16\nrank=0\n",
		"the field dtype, and the field quant");
	refused(other, 1, "model=llama\ndtype=bf16\nrank=0\nmore=1\n",
		"no more fields");
	refused(other, 1, "model=llama\n", "the field dtype, and none more");
	refused(other, 1, "model=\033[31m\"\n", "\"?[31m\\\"\"");
	refused(other, 1, "model=\xc2\x9b[31m\n", "\"??[31m\"");
	refused(other, 1, "model=\xe2\x80\xae_2\n", "\"???_2\"");
	/* No word of what differs: both hashes. */
	refused(other, 1, fields, "fingerprint abababab");
	refused(other, 1, NULL, "01010101 was asked for");
	refused(other, 0xaa, NULL, "fingerprint abababab");
	/* The hash decides, whatever the fields. */
	f = print(0xab, "model=other\n");
	EQ(gpumap_share_open(other, NAME, 0, &f, &seen), 0);
	EQ(gpumap_share_info(other, seen, &info), 0);
	EQ(memcmp(info.fingerprint, f.hash, sizeof(f.hash)), 0);
	EQ(memcmp(shared(NAME).fingerprint, f.hash, sizeof(f.hash)), 0);
	EQ(gpumap_share_close(other, seen), 0);
	EQ(gpumap_share_open(other, NAME, 0, NULL, &seen), 0);
	gpumap_session_close(other);
	gpumap_session_close(owner);
	settles(0, 0);
}

static void what_has_none_is_refused(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *other = session_open(map);
	struct gpumap_fingerprint f = print(1, NULL);
	uint64_t buffer, id, seen;

	EQ(share_as(owner, NAME, NULL, &buffer, &id), 0);
	refused(other, 1, NULL, "has no fingerprint");
	EQ(shared(NAME).fingerprint[0], 0);
	EQ(gpumap_share_open(other, NAME, 0, NULL, &seen), 0);
	EQ(gpumap_share_open(other, "none", 0, &f, &seen), -ENOENT);
	gpumap_session_close(other);
	gpumap_session_close(owner);
	settles(0, 0);
}

static void bad_ones_are_told(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_fingerprint f = print(0, NULL);
	static char text[GPUMAP_SHARE_FIELDS_MAX + 2];
	uint64_t buffer, id;

	EQ(share_as(owner, NAME, &f, &buffer, &id), -EINVAL);
	OK(strstr(gpumap_refusal(map), "all 0"));
	EQ(gpumap_share_open(owner, NAME, 0, &f, &id), -EINVAL);
	EQ(gpumap_share_claim(owner, NAME, 0, &f, 0), -EINVAL);
	memset(text, 'x', GPUMAP_SHARE_FIELDS_MAX + 1);
	f = print(1, text);
	EQ(gpumap_share_open(owner, NAME, 0, &f, &id), -E2BIG);
	text[GPUMAP_SHARE_FIELDS_MAX] = '\0';
	EQ(gpumap_share_open(owner, NAME, 0, &f, &id), -ENOENT);
	EQ(share_as(owner, NAME, &f, &buffer, &id), 0);
	f.size = 4;
	EQ(gpumap_share_open(owner, NAME, 0, &f, &id), -EINVAL);
	EQ(gpumap_share_claim(owner, "", 0, NULL, 0), -EINVAL);
	EQ(gpumap_share_claim(owner, NULL, 0, NULL, 0), -EINVAL);
	EQ(gpumap_share_claim(owner, "x", GPUMAP_SHARE_READ_ONLY, NULL, 0),
	   -E2BIG);
	EQ(gpumap_share_unclaim(owner, NULL), -EINVAL);
	EQ(gpumap_share_unclaim(owner, "x"), 0);
	gpumap_session_close(owner);
	settles(0, 0);
}

/* ---- claims ------------------------------------------------------------- */

static void one_has_the_claim(void)
{
	struct gpumap_session *one = session_open(map);
	struct gpumap_session *two = session_open(map);
	struct gpumap_fingerprint f = print(3, fields);
	struct gpumap_fingerprint g = print(4, "model=llama\ndtype=fp8\n");
	uint64_t buffer, id;

	EQ(gpumap_share_claim(one, NAME, 0, &f, 0), 0);
	EQ(gpumap_share_claim(one, NAME, 0, &f, 0), -EALREADY);
	EQ(gpumap_share_claim(two, NAME, 0, &f, 0), -ETIME);
	OK(strstr(gpumap_refusal(map), "is about to share"));
	EQ(gpumap_share_claim(two, NAME, 0, NULL, story_now() + 10000000),
	   -ETIME);
	EQ(gpumap_share_claim(two, NAME, 0, &g, GPUMAP_NO_DEADLINE),
	   -EKEYREJECTED);
	OK(strstr(gpumap_refusal(map), "dtype is \"bf16\""));
	/* The claim is for what it says. */
	EQ(share_as(one, NAME, &g, &buffer, &id), -EKEYREJECTED);
	EQ(share_as(one, NAME, NULL, &buffer, &id), -EKEYREJECTED);
	EQ(share_as(two, NAME, &f, &buffer, &id), -EEXIST);
	EQ(share_as(one, NAME, &f, &buffer, &id), 0);
	EQ(gpumap_share_claim(two, NAME, 0, &f, GPUMAP_NO_DEADLINE), -EEXIST);
	EQ(gpumap_share_open(two, NAME, 0, &f, &id), 0);
	/* Given back, and gone with its session. */
	EQ(gpumap_share_claim(one, "x", 0, NULL, 0), 0);
	EQ(gpumap_share_unclaim(two, "x"), 0); /* not this one's */
	EQ(gpumap_share_claim(two, "x", 0, NULL, 0), -ETIME);
	EQ(gpumap_share_unclaim(one, "x"), 0);
	EQ(gpumap_share_claim(two, "x", 0, NULL, 0), 0);
	gpumap_session_close(two);
	EQ(gpumap_share_claim(one, "x", 0, NULL, story_now() + STORY_LIMIT_NS),
	   0);
	gpumap_session_close(one);
	settles(0, 0);
}

/* Makes the share, or opens it.  'm' answers 1 when it has made it, and 0 when
 * another has; 'd' claims and makes, and dies before it publishes. */
static int64_t takes_part(struct gpumap_session *session, struct line *line)
{
	struct gpumap_fingerprint f = print(9, fields);
	static uint64_t buffer, id;
	int ret;

	switch (line->what) {
	case 'm':
		do {
			ret = gpumap_share_claim(session, NAME, 0, &f,
						 GPUMAP_NO_DEADLINE);
			if (ret == 0) {
				ret = share_as(session, NAME, &f, &buffer, &id);
				return ret ? ret : 1;
			}
			if (ret == -EEXIST)
				ret = gpumap_share_open(session, NAME, 0, &f,
							&id);
		} while (ret == -ENOENT); /* its maker has gone meanwhile */
		return ret;
	case 'd':
		ret = gpumap_share_claim(session, NAME, 0, &f,
					 GPUMAP_NO_DEADLINE);
		if (ret == 0)
			ret = make(session, 0, 1, &buffer);
		return ret;
	case 'v':
		return value_at(session, id, 0);
	case 'u':
		return gpumap_share_claim(session, line->name,
					  (uint32_t)line->value, NULL, 0);
	default:
		return gpumap_share_close(session, id);
	}
}

/* The process that would make it is killed, and one of those that wait makes
 * it: one, and all find the same. */
static void a_dead_maker_is_replaced(void)
{
	int held = story_holds_at_rest(agent.pid);

	for (int round = 0; round < story_rounds(); round++) {
		struct player p[MAKERS], dead = player_start(0, takes_part);
		struct line line;
		int made = 0, right = 0;

		EQ(tell(&dead, 'd', "", 0), 0);
		for (int i = 0; i < MAKERS; i++) {
			p[i] = player_start(0, takes_part);
			tell_only(&p[i], 'm', "", 0);
		}
		story_nap(story_moment(round, 20000));
		player_end(&dead, SIGKILL);
		for (int i = 0; i < MAKERS; i++) {
			if (read(p[i].fd, &line, sizeof(line)) != sizeof(line))
				line.value = -EPIPE;
			if (!OK(line.value == 0 || line.value == 1))
				NOTE("%lld", (long long)line.value);
			made += line.value == 1;
		}
		EQ(made, 1);
		for (int i = 0; i < MAKERS; i++)
			right += tell(&p[i], 'v', "", 0) == 7;
		EQ(right, MAKERS);
		EQ(shared(NAME).n_holders, MAKERS);
		for (int i = 0; i < MAKERS; i++)
			player_end(&p[i], i % 2 ? SIGKILL : 0);
		settles(0, 0);
	}
	OK(story_gives_back(agent.pid, held));
}

static void strangers_wait_where_they_may(void)
{
	struct gpumap_session *one;
	struct player stranger;

	if (geteuid() != 0) {
		SKIP(1, "this needs root, to be somebody else");
		return;
	}
	one = session_open(map);
	stranger = player_start(STRANGER, takes_part);
	EQ(gpumap_share_claim(one, "ours", 0, NULL, 0), 0);
	EQ(tell(&stranger, 'u', "ours", 0), -EACCES);
	EQ(gpumap_share_claim(one, "all", GPUMAP_SHARE_ANY_USER, NULL, 0), 0);
	EQ(tell(&stranger, 'u', "all", 0), -ETIME);
	EQ(tell(&stranger, 'u', "its", 0), 0);
	EQ(gpumap_share_claim(one, "its", 0, NULL, GPUMAP_NO_DEADLINE),
	   -EACCES);
	player_end(&stranger, 0);
	gpumap_session_close(one);
}

TAP_CASE()
{
	shares_stage("share = any\n",
		     "[host]\nrows = 2\n[socket]\nmode = 0666\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	another_content_is_refused();
	what_has_none_is_refused();
	bad_ones_are_told();
	one_has_the_claim();
	a_dead_maker_is_replaced();
	strangers_wait_where_they_may();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	stage_end(&agent);
	return tap_done();
}
