/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Buffers that have a name: what others find under it, who may open it and how,
 * whom it is charged to, and until when.
 */

#include <pthread.h>

#include "tests/support/share_sessions.h"

#define MANIFEST "{\"layers\": 2}"

static const char config[] = "[socket]\n"
			     "mode = 0666\n"
			     "[host]\n"
			     "rows = 2\n"
			     "[limits]\n"
			     "arena-per-uid = 64M\n"
			     "exports-per-uid = 50\n";
static const char open_to_all[] = "[socket]\n"
				  "mode = 0666\n"
				  "[host]\n"
				  "rows = 2\n"
				  "[limits]\n"
				  "imports-per-uid = 3\n"
				  "import-bytes-per-uid = 5M\n";

static struct gpumap_share_info info_of(struct gpumap_session *session,
					uint64_t id)
{
	struct gpumap_share_info info = { .size = sizeof(info) };

	EQ(gpumap_share_info(session, id, &info), 0);
	return info;
}

/* Rows 0 and 1, with 7 and 8 in them. */
static uint64_t share_set(struct gpumap_session *owner, const char *name,
			  uint32_t flags, uint64_t buffers[2])
{
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = name,
						.buffers = buffers,
						.n_buffers = 2,
						.flags = flags,
						.about = MANIFEST,
						.about_bytes =
							sizeof(MANIFEST) };
	uint64_t id = 0;

	EQ(make(owner, 0, 7, &buffers[0]), 0);
	EQ(make(owner, 1, 8, &buffers[1]), 0);
	if (!EQ(gpumap_share_publish(owner, &request, &id), 0))
		NOTE("%s", gpumap_refusal(map));
	return id;
}

/* ---- a set, by its name ------------------------------------------------ */

static void a_set_is_found_whole(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *other = session_open(map);
	uint64_t buffers[2], id, seen = 0, theirs[2] = { 0 }, again = 0;
	struct gpumap_export_info part = { .size = sizeof(part) };
	struct gpumap_share_info info;

	EQ(gpumap_share_open(other, "set", 0, NULL, &seen), -ENOENT);
	id = share_set(owner, "set", 0, buffers);
	EQ(gpumap_share_open(other, "set", 0, NULL, &seen), 0);
	EQ(seen, id);
	info = info_of(other, id);
	EQ(strcmp(info.name, "set"), 0);
	EQ(info.n_buffers, 2);
	EQ(info.bytes, 2 * BYTES);
	EQ(info.uid, geteuid());
	EQ(info.about_bytes, sizeof(MANIFEST));
	OK(info.about && memcmp(info.about, MANIFEST, sizeof(MANIFEST)) == 0);
	info = info_of(owner, id);
	OK(info.about && memcmp(info.about, MANIFEST, sizeof(MANIFEST)) == 0);

	for (uint32_t i = 0; i < 2; i++) {
		EQ(gpumap_share_buffer(other, id, i, &part, &theirs[i]), 0);
		EQ(part.row, i);
		EQ(part.bytes, BYTES);
		EQ(value_of(other, i, theirs[i]), 7 + i);
		EQ(gpumap_share_buffer(other, id, i, NULL, &again), 0);
		EQ(again, theirs[i]);
		EQ(gpumap_share_buffer(owner, id, i, NULL, &again), 0);
		EQ(again, buffers[i]);
	}
	EQ(fill(other, 1, theirs[1], 9), 0);
	EQ(value_of(owner, 1, buffers[1]), 9);
	EQ(shared("set").n_holders, 2);
	EQ(shared("set").pid, getpid());

	/* Closed by one and by the other; then the name is free. */
	EQ(gpumap_share_close(owner, id), 0);
	EQ(gpumap_share_close(owner, id), -ENOENT);
	EQ(shared("set").n_holders, 1);
	EQ(shared("set").pid, 0);
	EQ(gpumap_share_close(other, id), 0);
	EQ(shares_n(), 0);
	EQ(fill(other, 1, theirs[1], 9), -ESTALE);
	EQ(value_of(owner, 1, buffers[1]), 9);
	EQ(gpumap_share_open(other, "set", 0, NULL, &seen), -ENOENT);
	EQ(share(owner, "set", buffers, 2, 0, &seen), 0);
	OK(seen > id);
	gpumap_session_close(owner);
	gpumap_session_close(other);
	settles(0, 0);
}

#define MANY 40u /* more than come with one reply */

/* Descriptors of several buffers come with one request, in their order. */
static void many_come_at_once(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *other = session_open(map);
	uint64_t b[MANY], id;
	int fds[MANY], n = 0, ret = 1;

	for (uint32_t i = 0; i < MANY; i++)
		EQ(make(owner, i % 2, 100 + i, &b[i]), 0);
	EQ(share(owner, "many", b, MANY, GPUMAP_SHARE_READ_ONLY, &id), 0);
	EQ(gpumap_share_fds(other, id, 0, MANY, fds), -ENOENT);
	EQ(gpumap_share_open(other, "many", GPUMAP_SHARE_READ_ONLY, NULL, &id),
	   0);
	EQ(gpumap_share_fds(other, id, 0, 0, fds), -EINVAL);
	EQ(gpumap_share_fds(other, id, MANY, 1, fds), -ERANGE);
	EQ(gpumap_share_fds(other, id, 3, 1, fds), 1);
	close(fds[0]);
	while (ret > 0 && n < (int)MANY) {
		ret = gpumap_share_fds(other, id, (uint32_t)n,
				       MANY - (uint32_t)n, &fds[n]);
		EQ(ret, n == 0 ? 32 : 8);
		n += ret > 0 ? ret : 0;
	}
	EQ(n, MANY);
	for (int i = 0; i < n; i++) {
#ifndef STAGE_CUDA
		uint32_t *at =
			mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fds[i], 0);

		if (OK(at != MAP_FAILED)) {
			EQ(at[N_WORDS - 1], 100 + (uint32_t)i);
			munmap(at, BYTES);
		}
#endif
		close(fds[i]);
	}
	gpumap_session_close(owner);
	gpumap_session_close(other);
	settles(0, 0);
}

static void what_cannot_be_is_told_apart(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *other = session_open(map);
	struct gpumap_session *third = session_open(map);
	static char long_name[65] = "";
	uint64_t b[2], id, seen, mine, num;
	struct gpumap_share_info small = { .size = 8 };

	memset(long_name, 'n', 64);
	id = share_set(owner, "one", 0, b);
	EQ(gpumap_buffer_alloc(owner, 0, BYTES, 0, GPUMAP_NO_DEADLINE, &mine),
	   0);
	EQ(share(owner, "two", b, 1, 0, &seen), -EBUSY);
	EQ(share(owner, "one", &mine, 1, 0, &seen), -EINVAL);
	EQ(share(owner, "two", b, 0, 0, &seen), -EINVAL);
	EQ(share(owner, "two", b, 1, 8, &seen), -E2BIG);
	EQ(share(owner, "", b, 1, 0, &seen), -EINVAL);
	EQ(share(owner, long_name, b, 1, 0, &seen), -EINVAL);
	EQ(share(other, "two", b, 1, 0, &seen), -EPERM);
	EQ(gpumap_share_open(other, long_name, 0, NULL, &seen), -EINVAL);
	EQ(gpumap_share_open(other, "a b", 0, NULL, &seen), -EINVAL);
	EQ(gpumap_share_open(other, "one", 2, NULL, &seen), -E2BIG);
	EQ(gpumap_share_open(owner, "one", 0, NULL, &seen), -EALREADY);
	EQ(gpumap_buffer_free(owner, mine), 0);
	EQ(make(owner, 0, 1, &mine), 0);
	EQ(share(owner, "one", &mine, 1, 0, &seen), -EEXIST);
	EQ(share(owner, "b\tc", &mine, 1, 0, &seen), -EINVAL);

	EQ(gpumap_share_open(other, "one", GPUMAP_SHARE_READ_ONLY, NULL, &seen),
	   0);
	EQ(gpumap_share_open(other, "one", 0, NULL, &seen), -EALREADY);
	EQ(gpumap_share_buffer(other, id, 2, NULL, &seen), -ERANGE);
	EQ(gpumap_share_buffer(other, id + 1, 0, NULL, &seen), -ENOENT);
	EQ(gpumap_share_buffer(other, id, 0, NULL, &seen), 0);
	EQ(fill(other, 0, seen, 1), -EACCES);
	EQ(gpumap_share_info(other, id, &small), -EINVAL);
	/* A client cannot share imported memory any further. */
	EQ(share(other, "two", &seen, 1, 0, &num), -EINVAL);

	/* None of these has left anything: it can be exported, and shared. */
	EQ(gpumap_buffer_export(owner, mine, &num), 0);
	EQ(gpumap_buffer_import(other, num, 0, &seen), 0);
	EQ(share(owner, "two", &mine, 1, GPUMAP_SHARE_READ_ONLY, &seen),
	   -EBUSY);
	EQ(share(owner, "two", &mine, 1, 0, &seen), 0);
	/* By its number only who was given one has it. */
	EQ(gpumap_buffer_import(other, num, 0, &seen), 0);
	EQ(gpumap_buffer_import(third, num - 1, 0, &seen), -ENOENT);
	gpumap_session_close(third);
	gpumap_session_close(owner);
	gpumap_session_close(other);
}

/* ---- read-only --------------------------------------------------------- */

#ifndef STAGE_CUDA
static void no_descriptor_writes(int fd, struct gpumap_session *owner,
				 uint64_t buffer)
{
	uint32_t *at = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	char path[64];
	int again;

	if (!OK(at != MAP_FAILED))
		return;
	EQ(at[0], 7);
	EQ(at[N_WORDS - 1], 7);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	OK(mmap(NULL, BYTES, PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	OK(mprotect(at, BYTES, PROT_READ | PROT_WRITE) != 0);
	OK(write(fd, "x", 1) < 0);
	if (again >= 0) {
		OK(mmap(NULL, BYTES, PROT_WRITE, MAP_SHARED, again, 0) ==
		   MAP_FAILED);
		OK(write(again, "x", 1) < 0);
		OK(ftruncate(again, 0) != 0);
		OK(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			     0, 4096) != 0);
		close(again);
	}
	/* The client that shared it can write it, and all see that. */
	EQ(fill(owner, 0, buffer, 70), 0);
	EQ(at[1], 70);
	munmap(at, BYTES);
}
#endif

static void nobody_writes_what_is_read_only(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *other = session_open(map);
	struct gpumap_export_info info = { .size = sizeof(info) };
	uint64_t b[2], id, seen, theirs, num;
	int fd = -1, ret;

	id = share_set(owner, "fixed", GPUMAP_SHARE_READ_ONLY, b);
	EQ(gpumap_share_open(other, "fixed", 0, NULL, &seen), -EACCES);
	OK(strstr(gpumap_refusal(map), "read-only") != NULL);
	EQ(gpumap_share_open(other, "fixed", GPUMAP_SHARE_READ_ONLY, NULL,
			     &seen),
	   0);
	EQ(gpumap_share_buffer(other, id, 0, NULL, &theirs), 0);
	EQ(fill(other, 0, theirs, 1), -EACCES);
	EQ(value_of(other, 0, theirs), 7);
	EQ(gpumap_buffer_export(owner, b[0], &num), -EBUSY);
	ret = gpumap_share_fd(other, id, 0, &info, &fd);
#ifdef STAGE_CUDA
	if (EQ(ret, 0)) /* by agreement: it is the same user's */
		close(fd);
#else
	if (EQ(ret, 0)) {
		EQ(info.bytes, BYTES);
		no_descriptor_writes(fd, owner, b[0]);
		close(fd);
	}
#endif
	/* Its own handle, once it is freed, gives it no right to the memory. */
	EQ(gpumap_buffer_free(owner, b[1]), 0);
	EQ(gpumap_share_buffer(owner, id, 1, NULL, &theirs), 0);
	EQ(value_of(owner, 1, theirs), 8);
	EQ(fill(owner, 1, theirs, 1), -EACCES);

	EQ(gpumap_share_close(other, id), 0);
	EQ(gpumap_share_close(owner, id), 0);
#ifdef STAGE_CUDA
	EQ(share(owner, "free", b, 1, 0, &seen), 0);
#else
	EQ(share(owner, "free", b, 1, 0, &seen), -EBUSY);
	OK(strstr(gpumap_refusal(map), "read-only") != NULL);
	EQ(share(owner, "fixed", b, 1, GPUMAP_SHARE_READ_ONLY, &seen), 0);
#endif
	gpumap_session_close(owner);
	gpumap_session_close(other);
	settles(0, 0);
}

#ifndef STAGE_CUDA
static void a_descriptor_is_the_memory(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *other = session_open(map);
	struct gpumap_export_info info = { .size = sizeof(info) };
	uint64_t b[2], id = share_set(owner, "map", 0, b), seen;
	uint32_t *at;
	int fd = -1;

	EQ(gpumap_share_open(other, "map", 0, NULL, &seen), 0);
	if (!EQ(gpumap_share_fd(other, id, 1, &info, &fd), 0))
		return;
	EQ(info.row, 1);
	at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (!OK(at != MAP_FAILED))
		return;
	at[0] = 8;
	for (uint32_t i = 0; i < N_WORDS; i++)
		at[i]++;
	EQ(value_of(owner, 1, b[1]), 9);
	gpumap_session_close(owner);
	EQ(gpumap_share_close(other, id), 0);
	/* The share is charged for as long as the connection that has it is
	 * open. */
	settles(0, BYTES);
	comes_to_be_left(BYTES);
	gpumap_session_close(other);
	settles(0, 0);
	EQ(at[1], 9);
	munmap(at, BYTES);
}
#endif

/* ---- who is charged, and what is told ---------------------------------- */

static void it_is_charged_to_the_last(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *other = session_open(map);
	uint64_t b[2], id = share_set(owner, "kept", 0, b), seen;

	EQ(charged(), 2 * BYTES);
	EQ(gpumap_share_open(other, "kept", 0, NULL, &seen), 0);
	EQ(charged(), 2 * BYTES);
	gpumap_session_close(owner);
	for (int i = 0; i < STORY_LOOKS && left_over() != 2 * BYTES; i++)
		story_nap(1000);
	EQ(left_over(), 2 * BYTES);
	EQ(charged(), 2 * BYTES);
	EQ(CTL("who", "--json"), DONE);
	OK(prints("\"session\":null"));
	OK(prints("\"lent_bytes\":2097152"));
	/* One that comes now finds all of it. */
	owner = session_open(map);
	EQ(gpumap_share_open(owner, "kept", 0, NULL, &seen), 0);
	EQ(gpumap_share_close(other, id), 0);
	EQ(value_at(owner, id, 0), 7);
	EQ(value_at(owner, id, 1), 8);
	gpumap_session_close(owner);
	settles(0, 0);
	EQ(left_over(), 0);
	gpumap_session_close(other);
}

static void shares_are_listed(void)
{
	static struct gpumap_share_info all[64];
	struct gpumap_session *owner = session_open(map);
	uint64_t b[2], small[40], seen, id;
	json_t *json, *first;
	char name[16];
	bool sorted = true;

	id = share_set(owner, "listed", GPUMAP_SHARE_READ_ONLY, b);
	EQ(CTL("shares"), DONE);
	OK(prints("listed") && prints("read-only"));
	EQ(CTL("shares", "--json"), DONE);
	json = object();
	first = json_array_get(list(json, "shares", 1), 0);
	OK(has_fields(first, "share name uid user pid command access any_user "
			     "kept buffers rows "
			     "holders bytes about_bytes age_ns fingerprint"));
	EQ(number(first, "share"), id);
	EQ(number(first, "pid"), getpid());
	EQ(number(first, "buffers"), 2);
	EQ(number(first, "holders"), 1);
	EQ(number(first, "bytes"), 2 * BYTES);
	EQ(number(first, "about_bytes"), sizeof(MANIFEST));
	json_decref(json);

	/* More than one reply's worth. */
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "many-%d", i);
		if (gpumap_buffer_alloc(owner, 0, 4096,
					GPUMAP_BUFFER_EXPORTABLE,
					GPUMAP_NO_DEADLINE, &small[i]) != 0 ||
		    share(owner, name, &small[i], 1, 0, &seen) != 0)
			sorted = false;
	}
	all[0].size = sizeof(all[0]);
	EQ(gpumap_share_list(map, all, 64), 41);
	for (int i = 1; i < 41; i++)
		sorted = sorted && all[i].share > all[i - 1].share;
	OK(sorted);
	EQ(gpumap_share_list(map, all, 2), 41);
	all[0].size = sizeof(all[0]) + 8;
	EQ(gpumap_share_list(map, all, 2), 41); /* as far as it is known */
	gpumap_session_close(owner);
	settles(0, 0);
}

static void there_are_limits(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = "large",
						.n_buffers = 51 };
	static uint64_t b[51];
	static char about[32 << 20];
	uint64_t id;

	for (int i = 0; i < 51; i++)
		if (gpumap_buffer_alloc(owner, 0, 4096,
					GPUMAP_BUFFER_EXPORTABLE,
					GPUMAP_NO_DEADLINE, &b[i]) != 0)
			exit(99);
	request.buffers = b;
	EQ(gpumap_share_publish(owner, &request, &id), -EDQUOT);
	OK(strstr(gpumap_refusal(map), "exports-per-uid") != NULL);
	EQ(shares_n(), 0);
	/* None of them was left exported. */
	request.n_buffers = 50;
	EQ(gpumap_share_publish(owner, &request, &id), 0);
	EQ(gpumap_share_close(owner, id), 0);

	request.about = about;
	request.about_bytes = GPUMAP_SHARE_ABOUT_MAX + 1;
	EQ(gpumap_share_publish(owner, &request, &id), -E2BIG);
	request.about_bytes = sizeof(about);
	EQ(gpumap_share_publish(owner, &request, &id), 0);
	request.name = "second";
	request.buffers = b + 50;
	request.n_buffers = 1;
	EQ(gpumap_share_publish(owner, &request, &id), -EDQUOT);
	gpumap_session_close(owner);
	settles(0, 0);
}

/* ---- strangers --------------------------------------------------------- */

static int64_t stranger_plays(struct gpumap_session *session, struct line *line)
{
	static uint64_t last;

	switch (line->what) {
	case 'o':
		return gpumap_share_open(session, line->name,
					 (uint32_t)line->value, NULL, &last);
	case 'v':
		return value_at(session, last, (uint32_t)line->value);
	case 'c':
		return gpumap_share_close(session, last);
	case 'd':
		return gpumap_share_fds(session, last, 0, 1, &(int){ -1 });
	default:
		return -ENOSYS;
	}
}

static void strangers_are_kept_out(void)
{
	struct gpumap_session *owner = session_open(map);
	uint32_t uid = STRANGER;
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = "theirs",
						.n_buffers = 1,
						.uids = &uid,
						.n_uids = 1 };
	struct player stranger;
	uint64_t b[2], id, mine;

	EQ(make(owner, 0, 1, &mine), 0);
	request.buffers = &mine;
	EQ(gpumap_share_publish(owner, &request, &id), -EPERM);
	OK(strstr(gpumap_refusal(map), "share = any") != NULL);
	EQ(share(owner, "all", &mine, 1, GPUMAP_SHARE_ANY_USER, &id), -EPERM);
	if (geteuid() == 0) {
		share_set(owner, "ours", 0, b);
		stranger = player_start(STRANGER, stranger_plays);
		EQ(tell(&stranger, 'o', "ours", 0), -EACCES);
		EQ(tell(&stranger, 'o', "none", 0), -ENOENT);
		player_end(&stranger, 0);
	} else {
		SKIP(2, "this needs root, to be somebody else");
	}
	gpumap_session_close(owner);
	settles(0, 0);
}

static void strangers_have_what_they_may(void)
{
	struct gpumap_session *owner;
	uint32_t uid = STRANGER;
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = "named",
						.n_buffers = 1,
						.uids = &uid,
						.n_uids = 1 };
	struct player stranger;
	uint64_t b[2], c[4], id;

	if (geteuid() != 0) {
		SKIP(1, "this needs root, to be somebody else");
		return;
	}
	/* Fork before there is a session: the child would have its socket,
	 * too. */
	stranger = player_start(STRANGER, stranger_plays);
	owner = session_open(map);
	share_set(owner, "ours", 0, b);
	for (uint32_t i = 0; i < 4; i++)
		EQ(make(owner, 0, 20 + i, &c[i]), 0);
	request.buffers = &c[0];
	EQ(gpumap_share_publish(owner, &request, &id), 0);
	EQ(share(owner, "all", &c[1], 1,
		 GPUMAP_SHARE_ANY_USER | GPUMAP_SHARE_READ_ONLY, &id),
	   0);
	EQ(share(owner, "more", &c[2], 1, GPUMAP_SHARE_ANY_USER, &id), 0);
	EQ(tell(&stranger, 'o', "ours", 0), -EACCES);
	EQ(tell(&stranger, 'o', "named", 0), 0);
	EQ(tell(&stranger, 'v', "", 0), 20);
	EQ(tell(&stranger, 'o', "all", 0), -EACCES);
	/* The user has a holder and an import, and a second holder; that is
	 * three. */
	EQ(tell(&stranger, 'o', "all", GPUMAP_SHARE_READ_ONLY), 0);
	EQ(tell(&stranger, 'o', "more", 0), -EDQUOT);
#ifdef STAGE_CUDA
	EQ(tell(&stranger, 'd', "", 0), -EACCES); /* it could write */
#endif
	EQ(tell(&stranger, 'c', "", 0), 0);
	/* The user may keep 5 MiB of other users' memory on row 0. */
	EQ(share(owner, "lot", &c[3], 1, GPUMAP_SHARE_ANY_USER, &id), 0);
	EQ(tell(&stranger, 'o', "all", GPUMAP_SHARE_READ_ONLY), 0);
	EQ(shared("all").n_holders, 2);
	/* The share outlives its owner for the user. */
	gpumap_session_close(owner);
	for (int i = 0; i < STORY_LOOKS && shares_n() > 2; i++)
		story_nap(1000);
	EQ(tell(&stranger, 'c', "", 0), 0);
	EQ(shared("named").n_holders, 1);
	player_end(&stranger, SIGKILL);
	settles(0, 0);
}

static void strangers_keep_a_part_at_most(void)
{
	struct gpumap_session *owner;
	struct player stranger;
	uint64_t b[7], id;

	if (geteuid() != 0) {
		SKIP(1, "this needs root, to be somebody else");
		return;
	}
	stranger = player_start(STRANGER, stranger_plays);
	owner = session_open(map);
	for (uint32_t i = 0; i < 7; i++)
		EQ(make(owner, i > 3, i, &b[i]), 0);
	/* Buffers of each row: one of the first, three of the second. */
	EQ(share(owner, "rows", b + 3, 4, GPUMAP_SHARE_ANY_USER, &id), 0);
	EQ(tell(&stranger, 'o', "rows", 0), -EDQUOT);
	EQ(shared("rows").n_holders, 1);
	EQ(share(owner, "two", b, 2, GPUMAP_SHARE_ANY_USER, &id), 0);
	EQ(share(owner, "one", b + 2, 1, GPUMAP_SHARE_ANY_USER, &id), 0);
	EQ(tell(&stranger, 'o', "two", 0), 0);
	EQ(tell(&stranger, 'o', "one", 0), -EDQUOT);
	EQ(shared("one").n_holders, 1);
	player_end(&stranger, 0);
	gpumap_session_close(owner);
	settles(0, 0);
}

/* ---- all of it --------------------------------------------------------- */

/* ---- a small stack ------------------------------------------------------- */

#ifdef __SANITIZE_ADDRESS__
#define STACK (512u << 10) /* what the sanitizer needs comes to it */
#else
#define STACK (64u << 10) /* as gpumap(7) says */
#endif

static void *shares_and_opens(void *unused)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *reader = session_open(map);
	struct gpumap_reservation reserved = { .size = sizeof(reserved) };
	struct gpumap_wait_info waits = { .size = sizeof(waits) };
	uint64_t buffers[2], id;

	share_set(owner, "small", 0, buffers);
	EQ(gpumap_share_open(reader, "small", 0, NULL, &id), 0);
	EQ(value_at(reader, id, 1), 8);
	EQ(gpumap_reservation_list(map, &reserved, 1), 0);
	EQ(gpumap_wait_list(map, &waits, 1), 0);
	gpumap_session_close(reader);
	gpumap_session_close(owner);
	return unused;
}

static void a_small_stack_will_do(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	EQ(pthread_attr_init(&attributes), 0);
	EQ(pthread_attr_setstacksize(&attributes, STACK), 0);
	EQ(pthread_create(&thread, &attributes, shares_and_opens, NULL), 0);
	EQ(pthread_join(thread, NULL), 0);
	EQ(pthread_attr_destroy(&attributes), 0);
	settles(0, 0);
}

/* Not even one of what is said about it. */
static void no_descriptor_stays_open(void)
{
	struct gpumap_session *owner = session_open(map);
	struct gpumap_session *reader = session_open(map);
	uint64_t buffers[2], id, first = share_set(owner, "set", 0, buffers);
	int before = story_holds(getpid(), NULL);

	for (int i = 0; i < 20; i++) {
		EQ(gpumap_share_open(reader, "set", 0, NULL, &id), 0);
		EQ(id, first);
		EQ(gpumap_share_close(reader, id), 0);
	}
	EQ(story_holds(getpid(), NULL), before);
	gpumap_session_close(reader);
	gpumap_session_close(owner);
	settles(0, 0);
}

static bool begin(const char *cuda, const char *more)
{
	shares_stage(cuda, more);
	return OK(agent_start(&agent)) && OK((map = story_attach(&agent)));
}

static void end(void)
{
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	if (tap_failures)
		agent_show_log(&agent);
}

TAP_CASE()
{
	if (begin("", config)) {
		a_set_is_found_whole();
		many_come_at_once();
		what_cannot_be_is_told_apart();
		nobody_writes_what_is_read_only();
#ifndef STAGE_CUDA
		a_descriptor_is_the_memory();
#endif
		it_is_charged_to_the_last();
		shares_are_listed();
		a_small_stack_will_do();
		no_descriptor_stays_open();
		there_are_limits();
		strangers_are_kept_out();
		end();
	}
	if (begin("share = any\n", open_to_all)) {
		strangers_have_what_they_may();
		strangers_keep_a_part_at_most();
		end();
	}
	stage_end(&agent);
	return tap_done();
}
