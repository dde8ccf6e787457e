/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * share_sessions.h - sessions that share buffers by name, and what is in those.
 *
 * Each process that plays a part attaches for itself; a part is told what to do
 * and tells how it went, over a socket, a line at a time.
 */
#ifndef GM_TEST_SUPPORT_SHARE_SESSIONS_H
#define GM_TEST_SUPPORT_SHARE_SESSIONS_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "tests/support/story_rows.h"
#include "tests/support/story.h"
#include "tests/support/ctl.h"
#include "tests/support/users.h"

#define STRANGER 61357u /* a uid that no user has */
#define BYTES    (UINT64_C(2) << 20)
#define N_WORDS  (BYTES / 4)

static struct gpumap *map;

/* The agent's configuration: lines of [cuda], and further sections. */
static inline void shares_stage(const char *cuda, const char *more)
{
#ifdef STAGE_CUDA
	if (agent.kept == NULL &&
	    !cuda_scene_make(&stage_scene, "mixed.yaml", NULL))
		exit(99);
	cuda_scene_agent(&stage_scene, &agent, cuda, more);
#else
	char all[1024];

	snprintf(all, sizeof(all), "%s[cuda]\nenabled = off\n%s", more, cuda);
	stage_make(&agent, all);
#endif
}

/* ---- jobs -------------------------------------------------------------- */

static inline struct gpumap_session *session_open(struct gpumap *of)
{
	struct gpumap_session_opts opts = { .size = sizeof(opts),
					    .arena_bytes = BYTES };
	struct gpumap_session *session = NULL;

	return gpumap_session_open(of, &opts, &session) == 0 ? session : NULL;
}

static inline int fill(struct gpumap_session *session, uint32_t row,
		       uint64_t buffer, uint32_t value)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_U32,
				  .dst_buffer = buffer,
				  .n = N_WORDS,
				  .pattern = value };

	return story_run(session, row, &job);
}

/* The value that is in all of it; negative: an error, -EIO: two of them. */
static inline int64_t value_of(struct gpumap_session *session, uint32_t row,
			       uint64_t buffer)
{
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .dtype = GPUMAP_DTYPE_U32,
				  .src_buffer = buffer,
				  .n = N_WORDS };
	int64_t value;
	void *memory;
	uint32_t *at;
	int ret = gpumap_alloc(session, row, BYTES, &memory);

	if (ret != 0)
		return ret;
	job.dst = at = memory;
	memset(memory, 0xff, BYTES);
	ret = story_run(session, row, &job);
	value = ret == 0 ? (int64_t)at[0] : ret;
	for (uint64_t i = 1; i < N_WORDS && ret == 0; i++)
		value = at[i] == at[0] ? value : -EIO;
	gpumap_free(session, memory);
	return value;
}

/* With a value all over. */
static inline int make(struct gpumap_session *session, uint32_t row,
		       uint32_t value, uint64_t *ret_buffer)
{
	int ret = gpumap_buffer_alloc(session, row, BYTES,
				      GPUMAP_BUFFER_EXPORTABLE,
				      GPUMAP_NO_DEADLINE, ret_buffer);

	return ret == 0 ? fill(session, row, *ret_buffer, value) : ret;
}

static inline int share(struct gpumap_session *session, const char *name,
			const uint64_t *buffers, uint32_t n, uint32_t flags,
			uint64_t *ret_share)
{
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = name,
						.buffers = buffers,
						.n_buffers = n,
						.flags = flags };

	return gpumap_share_publish(session, &request, ret_share);
}

/* The contents of the share's buffer of this index, by a fresh handle. */
static inline int64_t value_at(struct gpumap_session *session, uint64_t id,
			       uint32_t index)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	uint64_t buffer;
	int ret = gpumap_share_buffer(session, id, index, &info, &buffer);

	return ret == 0 ? value_of(session, info.row, buffer) : ret;
}

/* ---- what the agent knows ---------------------------------------------- */

static inline int shares_n(void)
{
	return gpumap_share_list(map, NULL, 0);
}

static inline struct gpumap_share_info shared(const char *name)
{
	struct gpumap_share_info all[32] = { { .size = sizeof(all[0]) } };
	int n = gpumap_share_list(map, all, 32);

	for (int i = 0; i < n && i < 32; i++) {
		if (strcmp(all[i].name, name) == 0)
			return all[i];
	}
	return (struct gpumap_share_info){ .n_holders = 0 };
}

/* The sum of bytes that users are charged for. */
static inline uint64_t charged(void)
{
	struct gpumap_usage all[64] = { { .size = sizeof(all[0]) } };
	int n = gpumap_usage_list(map, all, 64);
	uint64_t bytes = 0;

	for (int i = 0; i < n && i < 64; i++)
		bytes += all[i].bytes;
	return bytes;
}

/* Bytes that no session has, and their user is charged for. */
static inline uint64_t left_over(void)
{
	struct gpumap_usage all[64] = { { .size = sizeof(all[0]) } };
	int n = gpumap_usage_list(map, all, 64);
	uint64_t bytes = 0;

	for (int i = 0; i < n && i < 64; i++)
		bytes += all[i].session == 0 ? all[i].bytes : 0;
	return bytes;
}

/* The remaining memory of a session that is leaving is its own until it has
 * gone. */
static inline bool comes_to_be_left(uint64_t bytes)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (left_over() != bytes && story_now() < until)
		story_nap(1000);
	return EQ(left_over(), bytes);
}

/* Wait until the sum is this.  The memory that a leaving session has lent may
 * be missing for an instant: it is charged to the session, then to no
 * session. */
static inline bool settles(int n_shares, uint64_t bytes)
{
	uint64_t until = story_now() + STORY_LIMIT_NS, has;
	int n;

	do {
		story_nap(1000);
		n = shares_n();
		has = charged();
	} while ((n != n_shares || has != bytes) && story_now() < until);
	return EQ(n, n_shares) && EQ(has, bytes);
}

/* ---- other processes --------------------------------------------------- */

struct player {
	pid_t pid;
	int fd;
};

/* The orders of a player: a letter, and a name or a number. */
struct line {
	char what;
	char name[15];
	int64_t value;
};

typedef int64_t (*play)(struct gpumap_session *session, struct line *line);

static inline void player_lives(int fd, uid_t uid, play part)
{
	struct gpumap_session *session;
	struct gpumap *own;
	struct line line;

	if (uid != 0 && !user_become(uid, uid))
		_exit(1);
	own = story_attach(&agent);
	session = own ? session_open(own) : NULL;
	if (!session)
		_exit(2);
	while (read(fd, &line, sizeof(line)) == sizeof(line) &&
	       line.what != 'q') {
		line.value = part(session, &line);
		if (write(fd, &line, sizeof(line)) != sizeof(line))
			_exit(3);
	}
	_exit(0);
}

static inline struct player player_start(uid_t uid, play part)
{
	struct player p = { .pid = -1, .fd = -1 };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return p;
	fflush(stdout);
	p.pid = fork();
	if (p.pid == 0) {
		close(ends[0]);
		player_lives(ends[1], uid, part);
	}
	close(ends[1]);
	p.fd = ends[0];
	return p;
}

static inline int64_t tell(const struct player *p, char what, const char *name,
			   int64_t value)
{
	struct line line = { .what = what, .value = value };

	snprintf(line.name, sizeof(line.name), "%s", name);
	if (write(p->fd, &line, sizeof(line)) != sizeof(line) ||
	    read(p->fd, &line, sizeof(line)) != sizeof(line))
		return -EPIPE;
	return line.value;
}

/* Have it do that, and do not wait. */
static inline void tell_only(const struct player *p, char what,
			     const char *name, int64_t value)
{
	struct line line = { .what = what, .value = value };

	snprintf(line.name, sizeof(line.name), "%s", name);
	(void)!write(p->fd, &line, sizeof(line));
}

static inline void player_end(struct player *p, int signal)
{
	if (p->pid <= 0)
		return;
	if (signal != 0)
		kill(p->pid, signal);
	else
		tell_only(p, 'q', "", 0);
	close(p->fd);
	waitpid(p->pid, NULL, 0);
	p->pid = 0;
}

#endif
