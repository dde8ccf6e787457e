/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Requests about shares as no library makes them: each is refused with its
 * reason, and leaves nothing.
 */

#include "tests/support/share_sessions.h"

#include "lib/internal.h"

static struct gpumap_session *owner, *other;
static uint64_t buffers[2]; /* of the owner; exported for sharing */
static char why[GM_WHY];

/* ---- means ------------------------------------------------------------- */

/* A request with whatever there is; its status, and its words in why. */
static int ask(struct gpumap_session *session, uint16_t type, const void *body,
	       uint32_t bytes, const void *tail, size_t tail_bytes, int fd)
{
	static char room[64 << 10];
	struct gm_call call = { .type = type,
				.body = body,
				.body_bytes = bytes,
				.n_tail = 1,
				.tail = { { (void *)(uintptr_t)tail,
					    tail_bytes } },
				.carries = fd >= 0 ? &fd : NULL,
				.reply_tail = room,
				.reply_tail_room = sizeof(room),
				.reply = room,
				.reply_bytes = 64 };
	int ret = gm_session_call(session, &call, 1);

	gm_call_close_fds(&call);
	memcpy(why, call.why, sizeof(why));
	return ret;
}

static int export_with(struct gpumap_session *session, uint64_t handle,
		       uint32_t flags, uint32_t reserved)
{
	struct gm_export_ask body = { handle, flags, reserved };

	return ask(session, GM_CONTROL_EXPORT, &body, sizeof(body), NULL, 0,
		   -1);
}

static struct gm_share_ask plain(const char *name)
{
	struct gm_share_ask body = { .n_buffers = 2 };

	snprintf(body.name, sizeof(body.name), "%s", name);
	return body;
}

static int share_with(struct gpumap_session *session,
		      const struct gm_share_ask *body, int fd)
{
	return ask(session, GM_CONTROL_SHARE, body, sizeof(*body), buffers,
		   sizeof(buffers), fd);
}

static void refused(const char *what, int got, int want, const char *words)
{
	if (got != want || !strstr(why, words))
		NOTE("%s: got %d, want %d: %s", what, got, want, why);
	tap_check(got == want && strstr(why, words), what, __FILE__, __LINE__);
}

static int about(int seals, uint64_t bytes)
{
	int fd = memfd_create("agent-shares", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) != 0)
		exit(99);
	return fd;
}

/* ---- SHARE ------------------------------------------------------------- */

static void forms_are_checked(void)
{
	struct gm_share_ask body = plain("x");

	body.flags = UINT32_C(1) << 31;
	refused("an unknown flag", share_with(owner, &body, -1), -EINVAL,
		"flags 0x80000000");
	body = plain("x");
	body.reserved = 1;
	refused("a reserved field", share_with(owner, &body, -1), -EINVAL, "");
	body = plain("x");
	body.n_buffers = 0;
	refused("no buffers", share_with(owner, &body, -1), -EINVAL,
		"0 buffers");
	body.n_buffers = 1025;
	refused("too many", share_with(owner, &body, -1), -EINVAL, "1025");
	body.n_buffers = 3;
	refused("a tail of two", share_with(owner, &body, -1), -EINVAL,
		"parts");
	body = plain("x");
	body.n_uids = UINT32_MAX;
	refused("users without end", share_with(owner, &body, -1), -EINVAL,
		"uids");
	body = plain("x");
	memset(body.name, 'x', sizeof(body.name));
	refused("a name without end", share_with(owner, &body, -1), -EINVAL,
		"no end");
	body = plain("");
	refused("no name", share_with(owner, &body, -1), -EINVAL, "1 to 63");
	body = plain("a\x1b[31m");
	refused("a name for terminals", share_with(owner, &body, -1), -EINVAL,
		"control");
	body = plain("x");
	refused("somebody else's buffers", share_with(other, &body, -1),
		-ENOENT, "not exported");
	body.flags = GPUMAP_SHARE_READ_ONLY;
	refused("what was exported to be written", share_with(owner, &body, -1),
		-EBUSY, "for writing");
	EQ(shares_n(), 0);
}

/* A fingerprint's fields, in the tail of each request that has one. */
static void fields_are_checked(void)
{
	static char text[GM_SHARE_FIELDS_MAX + 1];
	struct gm_share_claim claim = { .name = "k", .key.fields_bytes = 3 };
	struct gm_share_open opens = { .name = "k", .key.fields_bytes = 3 };
	struct gm_share_ask body = plain("k");

	body.key.fields_bytes = UINT32_MAX;
	refused("fields without end", share_with(owner, &body, -1), -EINVAL,
		"parts");
	refused("fewer than it tells of",
		ask(owner, GM_CONTROL_SHARE_CLAIM, &claim, sizeof(claim), text,
		    2, -1),
		-EINVAL, "parts");
	refused("more than it tells of",
		ask(owner, GM_CONTROL_SHARE_OPEN, &opens, sizeof(opens), text,
		    4, -1),
		-EINVAL, "parts");
	refused("fields of nothing",
		ask(owner, GM_CONTROL_SHARE_OPEN, &opens, sizeof(opens), "a=b",
		    3, -1),
		-EINVAL, "not 0");
	claim.key.hash[31] = 1;
	refused("no text",
		ask(owner, GM_CONTROL_SHARE_CLAIM, &claim, sizeof(claim),
		    "a\0b", 3, -1),
		-EINVAL, "text");
	claim.key.reserved = 1;
	refused("a reserved field",
		ask(owner, GM_CONTROL_SHARE_CLAIM, &claim, sizeof(claim), "a=b",
		    3, -1),
		-EINVAL, "");
	claim.key.reserved = 0;
	claim.key.fields_bytes = sizeof(text);
	memset(text, 'x', sizeof(text));
	refused("too many",
		ask(owner, GM_CONTROL_SHARE_CLAIM, &claim, sizeof(claim), text,
		    sizeof(text), -1),
		-EINVAL, "at most 4096");
	EQ(shares_n(), 0);
}

static void what_is_said_is_checked(void)
{
	const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	struct gm_share_ask body = plain("x");
	int fd;

	body.about_bytes = 100;
	refused("no descriptor", share_with(owner, &body, -1), -EINVAL,
		"no descriptor");
	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	refused("a device", share_with(owner, &body, fd), -EINVAL, "no memfd");
	close(fd);
	fd = about(F_SEAL_GROW | F_SEAL_WRITE, 100);
	refused("what can shrink", share_with(owner, &body, fd), -EPERM,
		"F_SEAL_SHRINK");
	close(fd);
	fd = about(F_SEAL_SHRINK | F_SEAL_GROW, 100);
	refused("what can change", share_with(owner, &body, fd), -EPERM,
		"F_SEAL_WRITE");
	close(fd);
	fd = about(all, 99);
	refused("one byte less", share_with(owner, &body, fd), -ERANGE, "100");
	close(fd);
	fd = about(all, 101);
	refused("one byte more", share_with(owner, &body, fd), -ERANGE, "100");
	body.about_bytes = 0;
	refused("bytes that it does not tell of", share_with(owner, &body, fd),
		-EINVAL, "");
	close(fd);
	fd = about(all, GM_SHARE_ABOUT_MAX + 1);
	body.about_bytes = GM_SHARE_ABOUT_MAX + 1;
	refused("too much", share_with(owner, &body, fd), -E2BIG, "at most");
	body.about_bytes = UINT64_MAX;
	refused("more than there is", share_with(owner, &body, fd), -E2BIG,
		"at most");
	close(fd);
	EQ(shares_n(), 0);
}

/* Found out when the first is taken already: it is given back. */
static void all_or_nothing(void)
{
	struct gm_share_ask body = plain("x");
	uint64_t twice[2] = { buffers[0], buffers[0] };
	uint64_t odd[2] = { buffers[0], buffers[1] + 1 };

	refused("a buffer twice",
		ask(owner, GM_CONTROL_SHARE, &body, sizeof(body), twice,
		    sizeof(twice), -1),
		-EBUSY, "already");
	refused("one that there is not",
		ask(owner, GM_CONTROL_SHARE, &body, sizeof(body), odd,
		    sizeof(odd), -1),
		-ENOENT, "not exported");
	EQ(shares_n(), 0);
	EQ(share_with(owner, &body, -1), 0);
	body = plain("y");
	refused("under a second name", share_with(owner, &body, -1), -EBUSY,
		"as x already");
	EQ(shares_n(), 1);
}

/* ---- who opens, imports and closes ------------------------------------- */

static void exports_have_known_flags(void)
{
	refused("an unknown flag", export_with(owner, buffers[0], 4, 0),
		-EINVAL, "flags 0x4");
	refused("read-only by number", export_with(owner, buffers[0], 2, 0),
		-EINVAL, "flags 0x2");
	refused("a reserved field", export_with(owner, buffers[0], 1, 1),
		-EINVAL, "");
	refused("the other way", export_with(owner, buffers[0], 3, 0), -EBUSY,
		"for writing");
	EQ(export_with(owner, buffers[0], GM_EXPORT_NAMED, 0), 0);
}

static int import_at(struct gpumap_session *session, uint64_t id,
		     uint32_t flags, bool as_buffer)
{
	struct gm_import body = { .id = id, .flags = flags };
	struct gm_queue_pair *pair;

	if (as_buffer && gm_session_pair(session, 0, &pair) != 0)
		return -EBADMSG;
	if (as_buffer)
		body.handle = gm_handle_make(1000 + flags, GM_BUFFER_DEVICE, 0,
					     100 + flags);
	return ask(session, GM_CONTROL_IMPORT, &body, sizeof(body), NULL, 0,
		   -1);
}

static void only_holders_import(void)
{
	struct gm_share_open body = { .name = "x", .flags = 8 };
	struct gm_share_close closing = { .id = UINT64_MAX };
	uint64_t first = 0, id;

	EQ(gpumap_share_open(other, "x", 0, NULL, &first), 0);
	refused("an unknown flag",
		ask(owner, GM_CONTROL_SHARE_OPEN, &body, sizeof(body), NULL, 0,
		    -1),
		-EINVAL, "0x8");
	refused("a share that there is not",
		ask(other, GM_CONTROL_SHARE_CLOSE, &closing, sizeof(closing),
		    NULL, 0, -1),
		-ENOENT, "does not hold");
	/* Its ids are easy to guess, and nothing to who does not hold it. */
	EQ(gpumap_share_close(other, first), 0);
	for (id = 1; id < 16; id++)
		if (import_at(other, id, 0, true) != -ENOENT ||
		    import_at(other, id, 0, false) != -ENOENT)
			break;
	EQ(id, 16);
}

static void read_only_is_read_only(void)
{
	uint64_t fixed, id = 0, seen, mine;

	EQ(make(owner, 0, 1, &fixed), 0);
	EQ(share(owner, "fixed", &fixed, 1, GPUMAP_SHARE_READ_ONLY, &id), 0);
	EQ(gpumap_share_open(other, "fixed", GPUMAP_SHARE_READ_ONLY, NULL,
			     &seen),
	   0);
	for (mine = 1; mine < 32; mine++)
		if (import_at(other, mine, 0, true) == -EACCES)
			break;
	OK(mine < 32);
	OK(strstr(why, "READ_ONLY"));
	EQ(import_at(other, mine, GPUMAP_BUFFER_READ_ONLY, true), 0);
	refused("a descriptor that is made so",
		import_at(other, mine, GPUMAP_BUFFER_READ_ONLY, false), -EINVAL,
		"descriptor");
}

/* ---- SHARE_CLAIM, SHARE_END -------------------------------------------- */

static int claim_with(struct gpumap_session *session, const char *name,
		      uint32_t flags, uint32_t reserved)
{
	struct gm_share_claim body = { .flags = flags, .reserved = reserved };

	snprintf(body.name, sizeof(body.name), "%s", name);
	return ask(session, GM_CONTROL_SHARE_CLAIM, &body, sizeof(body), NULL,
		   0, -1);
}

static void claims_are_one_sessions(void)
{
	struct gm_share_claim endless = { .flags = 0 };
	struct gm_share_ask body = plain("c0");
	char name[16];

	refused("an unknown flag", claim_with(owner, "c", 8, 0), -EINVAL,
		"0x8");
	refused("for others", claim_with(owner, "c", GM_SHARE_CLAIM_OTHERS, 0),
		-EPERM, "share = any");
	refused("a reserved field", claim_with(owner, "c", 0, 1), -EINVAL, "");
	refused("no name", claim_with(owner, "", 0, 0), -EINVAL, "1 to 63");
	memset(endless.name, 'x', sizeof(endless.name));
	refused("a name without end",
		ask(owner, GM_CONTROL_SHARE_CLAIM, &endless, sizeof(endless),
		    NULL, 0, -1),
		-EINVAL, "no end");
	refused("what is shared", claim_with(other, "x", 0, 0), -EEXIST,
		"open it");
	for (uint32_t i = 0; i < GM_SHARE_CLAIMS_MAX; i++) {
		snprintf(name, sizeof(name), "c%u", i);
		EQ(claim_with(other, name, 0, 0), 0);
	}
	refused("one too many", claim_with(other, "c99", 0, 0), -EDQUOT, "16");
	refused("the user's", claim_with(owner, "c99", 0, 0), -EDQUOT, "16");
	refused("twice", claim_with(other, "c0", 0, 0), -EALREADY, "already");
	refused("somebody else's", claim_with(owner, "c0", 0, 0), -EBUSY,
		"about to");
	refused("to share by it", share_with(owner, &body, -1), -EEXIST,
		"about to");
	/* A client cannot drop a share of another client, and no importer is
	 * told. */
	EQ(claim_with(owner, "c0", GM_SHARE_CLAIM_DROP, 0), 0);
	refused("still", claim_with(owner, "c0", 0, 0), -EBUSY, "about to");
	EQ(claim_with(other, "c0", GM_SHARE_CLAIM_DROP, 0), 0);
	EQ(claim_with(owner, "c0", 0, 0), 0);
	EQ(claim_with(owner, "c0", GM_SHARE_CLAIM_DROP, 0), 0);
	EQ(claim_with(other, "c99", 0, 0), 0);
	/* They go with their session. */
	gpumap_session_close(other);
	other = session_open(map);
	EQ(claim_with(owner, "c99", 0, 0), 0);
}

static int64_t claims(struct gpumap_session *session, struct line *line)
{
	return claim_with(session, line->name, (uint32_t)line->value, 0);
}

/* The client would wait for a share that it may never open, for as long as its
 * claimant likes. */
static void strangers_do_not_wait_for_it(void)
{
	struct player stranger;

	if (geteuid() != 0) {
		SKIP(1, "this needs root, to be somebody else");
		return;
	}
	stranger = player_start(STRANGER, claims);
	EQ(claim_with(owner, "ours", 0, 0), 0);
	EQ(tell(&stranger, 'c', "ours", 0), -EACCES);
	EQ(tell(&stranger, 'c', "his", 0), 0);
	EQ(claim_with(owner, "his", 0, 0), -EACCES);
	OK(strstr(why, "take another name") != NULL);
	EQ(claim_with(owner, "ours", GM_SHARE_CLAIM_DROP, 0), 0);
	EQ(tell(&stranger, 'c', "ours", 0), 0);
	player_end(&stranger, 0);
}

static void ends_are_by_name(void)
{
	struct gm_share_end body = { .name = "c99" };

	refused("what is only claimed",
		ask(owner, GM_CONTROL_SHARE_END, &body, sizeof(body), NULL, 0,
		    -1),
		-ENOENT, "c99");
	memset(body.name, 'x', sizeof(body.name));
	refused("a name without end",
		ask(owner, GM_CONTROL_SHARE_END, &body, sizeof(body), NULL, 0,
		    -1),
		-EINVAL, "no end");
	snprintf(body.name, sizeof(body.name), "a\x1b[31m");
	refused("a name for terminals",
		ask(owner, GM_CONTROL_SHARE_END, &body, sizeof(body), NULL, 0,
		    -1),
		-EINVAL, "control");
}

TAP_CASE()
{
	shares_stage("", "[host]\nrows = 2\n[socket]\nmode = 0666\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	owner = session_open(map);
	other = session_open(map);
	for (uint32_t i = 0; i < 2; i++) {
		EQ(make(owner, i, i, &buffers[i]), 0);
		EQ(export_with(owner, buffers[i], GM_EXPORT_NAMED, 0), 0);
	}
	forms_are_checked();
	fields_are_checked();
	what_is_said_is_checked();
	exports_have_known_flags();
	all_or_nothing();
	only_holders_import();
	read_only_is_read_only();
	claims_are_one_sessions();
	strangers_do_not_wait_for_it();
	ends_are_by_name();
	gpumap_session_close(owner);
	gpumap_session_close(other);
	settles(0, 0);
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	stage_end(&agent);
	return tap_done();
}
