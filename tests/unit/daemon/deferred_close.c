/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * deferred_close: descriptors of one uid that never close hold up no other uid,
 * and a uid alone has as many threads as it always had.
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/base/deferred_close.h"
#include "tests/support/slow_close.h"
#include "tests/support/tap.h"

#define WAIT_MS 30000 /* against hanging */
#define ALONE   (GM_DEFERRED_CLOSE_THREADS / 2)
#define MANY    (GM_DEFERRED_CLOSE_PER_UID + ALONE)

static int others[4 * MANY];
static unsigned n_others;

/* Hand over @n that linger.  Returns false where there is no such thing. */
static bool linger(uid_t uid, unsigned n)
{
	while (n-- > 0) {
		int fd = lingering(&others[n_others]);

		if (others[n_others] < 0) {
			close(fd);
			return false;
		}
		n_others++;
		gm_deferred_close_close(fd, uid);
	}
	return true;
}

static void let_go(void)
{
	while (n_others > 0)
		close(others[--n_others]);
}

/* Is a pipe's end of this uid closed? */
static bool is_closed(uid_t uid)
{
	struct pollfd p = { .events = 0 };
	bool is;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		return false;
	gm_deferred_close_close(ends[1], uid);
	p.fd = ends[0];
	is = poll(&p, 1, WAIT_MS) == 1 && (p.revents & POLLHUP) != 0;
	close(ends[0]);
	return is;
}

static bool gets_empty(uid_t uid)
{
	for (int i = 0; i < WAIT_MS && gm_deferred_close_is_full(uid); i++)
		usleep(1000);
	return !gm_deferred_close_is_full(uid);
}

static void no_uid_has_it_all(void)
{
	OK(is_closed(1));
	if (!linger(1, MANY)) {
		SKIP(1, "no socket lingers here");
		return;
	}
	OK(gm_deferred_close_is_full(1));
	OK(!gm_deferred_close_is_full(2));
	for (int i = 0; i < 20; i++)
		OK(is_closed(2));
	/* Nor have two, nor three. */
	OK(linger(2, MANY));
	OK(is_closed(3));
	OK(linger(3, MANY));
	OK(is_closed((uid_t)-1));
	OK(is_closed(4));
	OK(gm_deferred_close_is_full(1));
	OK(gm_deferred_close_is_full(2));
	OK(gm_deferred_close_is_full(3));
	let_go();
	OK(gets_empty(1));
	OK(gets_empty(2));
	OK(gets_empty(3));
}

static void one_alone_has_eight(void)
{
	EQ(ALONE, 8);
	if (!linger(1, ALONE - 1)) {
		SKIP(1, "no socket lingers here");
		return;
	}
	OK(is_closed(1));
	let_go();
}

/* A descriptor behind a stuck one is closed after it. */
static void what_waits_is_not_forgotten(void)
{
	struct pollfd p = { .events = 0 };
	int ends[2];

	if (!linger(1, ALONE + 1)) {
		SKIP(1, "no socket lingers here");
		return;
	}
	if (!OK(pipe2(ends, O_CLOEXEC) == 0))
		return;
	gm_deferred_close_close(ends[1], 1);
	p.fd = ends[0];
	EQ(poll(&p, 1, 50), 0);
	let_go();
	EQ(poll(&p, 1, WAIT_MS), 1);
	close(ends[0]);
}

static struct gm_loop loop;
static unsigned n_freed;

static void is_freed(struct gm_deferred_memory *memory)
{
	(void)memory;
	n_freed++;
	gm_loop_stop(&loop);
}

/* A client may have a descriptor of it still. */
static void memory_is_freed_though_it_is_kept(void)
{
	struct gm_deferred_memory memory = { .freed = is_freed };
	int fd = memfd_create("kept", MFD_CLOEXEC), kept = dup(fd);
	struct stat st;

	EQ(ftruncate(fd, 1 << 20), 0);
	EQ(pwrite(fd, "x", 1, 4096), 1);
	EQ(fstat(kept, &st), 0);
	OK(st.st_blocks > 0);
	EQ(gm_loop_init(&loop), 0);
	EQ(gm_deferred_close_start(&loop), 0);
	gm_deferred_close_free(&memory, fd, 1);
	EQ(n_freed, 0);
	EQ(gm_loop_run(&loop), 0);
	EQ(n_freed, 1);
	EQ(fstat(kept, &st), 0);
	EQ(st.st_blocks, 0);
	EQ(st.st_size, 1 << 20);
	OK(!gm_deferred_close_is_full(1));
	gm_deferred_close_stop(&loop);
	gm_loop_exit(&loop);
	close(kept);
}

TAP_CASE()
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	no_uid_has_it_all();
	one_alone_has_eight();
	what_waits_is_not_forgotten();
	memory_is_freed_though_it_is_kept();
	return tap_done();
}
