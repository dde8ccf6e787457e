/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The memory of a node's masks, by the control socket: every client gets the
 * same descriptor, however often it asks, and not a mount of its own each time;
 * and no client can write it.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/support/raw.h"
#include "tests/support/story.h"

#define TIMES 100

static struct agent agent;
static char path[160];

static bool publish(void)
{
	static const uint32_t rows[] = { 0 };
	const struct gpumap_mask_request r = { .size = sizeof(r),
					       .name = "m",
					       .kind = GPUMAP_MASK_CUSTOM,
					       .form = GPUMAP_MASK_CAUSAL,
					       .dtype = GPUMAP_DTYPE_U8,
					       .tgt_len = 64,
					       .rows = rows,
					       .n_rows = 1 };
	struct gpumap *map = story_attach(&agent);
	bool is_there = map != NULL && gpumap_mask_publish(map, &r, NULL) == 0;

	gpumap_detach(map);
	return is_there;
}

static int ask(struct raw *c)
{
	const struct gm_mask_node node = { .node = 0 };
	int fds[GM_CONTROL_FDS_MAX];

	return raw_ask(c, GM_CONTROL_MASK_NODE, &node, sizeof(node), NULL, 0,
		       fds) == 0
		       ? fds[0]
		       : -1;
}

/* Two descriptors of one open file have one position. */
static bool is_same(int one, int other)
{
	return lseek(one, 4711, SEEK_SET) == 4711 &&
	       lseek(other, 0, SEEK_CUR) == 4711 &&
	       lseek(one, 0, SEEK_SET) == 0;
}

static void it_is_opened_once(void)
{
	struct raw c, other;
	int first, more, n = 0;

	raw_init(&other);
	if (!EQ(raw_open(&c, path), 0) || !OK((first = ask(&c)) >= 0))
		return;
	while (n < TIMES && (more = ask(&c)) >= 0) {
		n += is_same(first, more);
		close(more);
	}
	EQ(n, TIMES);
	if (EQ(raw_open(&other, path), 0) && OK((more = ask(&other)) >= 0)) {
		OK(is_same(first, more));
		close(more);
	}
	close(first);
	raw_close(&other);
	raw_close(&c);
}

static void it_cannot_be_opened_for_writing(void)
{
	char name[32];
	struct raw c;
	int fd = -1, again;

	if (!EQ(raw_open(&c, path), 0) || !OK((fd = ask(&c)) >= 0)) {
		raw_close(&c);
		return;
	}
	EQ(write(fd, "x", 1), -1);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	again = open(name, O_RDWR | O_CLOEXEC);
	EQ(again, -1);
	EQ(errno, EROFS);
	if (again >= 0)
		close(again);
	close(fd);
	raw_close(&c);
}

TAP_CASE()
{
	struct raw c;
	int fd;

	agent_make(&agent, "[host]\nrows = 1\n[masks]\nbytes = 1M\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent)) && OK(publish()) &&
	    EQ(raw_open(&c, path), 0)) {
		fd = ask(&c);
		if (fd < 0) {
			NOTE("%s", c.refusal);
			SKIP(1, "no read-only mount can be made here");
		} else {
			close(fd);
			it_is_opened_once();
			it_cannot_be_opened_for_writing();
		}
		raw_close(&c);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
