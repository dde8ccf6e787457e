/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that masks and meshes are looked up without a system call and without
 * an allocation: a child that may call nothing but read, write and exit looks
 * up everything about both, while they are published anew, and reports that it
 * succeeded.
 */

#include <errno.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shm/atomic.h"
#include "tests/support/story.h"

#define ROWS     2u
#define SIDE     64u
#define HIDDEN   (SIDE * (SIDE - 1) / 2)
#define LOOKUPS  100000u
#define VERSIONS 3u /* versions that the child must see, at least */

static struct agent agent;
static struct gpumap *map;

/* ---- the publishers ------------------------------------------------------ */

static int publish_mask(uint64_t past)
{
	const uint32_t rows[ROWS] = { 0, 1 };
	const struct gpumap_mask_request request = {
		.size = sizeof(request),
		.name = "mask",
		.kind = GPUMAP_MASK_CUSTOM,
		.form = GPUMAP_MASK_CAUSAL,
		.dtype = GPUMAP_DTYPE_U8,
		.tgt_len = SIDE,
		.past_kv_len = past,
		.rows = rows,
		.n_rows = ROWS,
	};

	return gpumap_mask_publish(map, &request, NULL);
}

static int publish_mesh(void)
{
	const uint32_t rows[ROWS] = { 0, 1 };
	const struct gpumap_mesh_request request = {
		.size = sizeof(request),
		.name = "mesh",
		.topology = GPUMAP_MESH_TENSOR,
		.tp = ROWS,
		.pp = 1,
		.dp = 1,
		.rows = rows,
		.n_rows = ROWS,
	};

	return gpumap_mesh_publish(map, &request);
}

/* ---- the reader ---------------------------------------------------------- */

/* exit() and _exit() call exit_group, which is not allowed here. */
static void leave(int status)
{
	syscall(SYS_exit, status);
}

/* Returns how many bytes are allocated, where the allocator can tell. */
static size_t allocated(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
	return mallinfo2().uordblks;
#else
	return 0;
#endif
}

static bool is_whole(const struct gpumap_mask_view *view)
{
	const unsigned char *at = view->data;
	uint64_t n = view->shape[0] * view->shape[1], sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += at[i];
	return sum == HIDDEN;
}

/* Look up each row's replica.  Returns false for a result that must not
 * occur. */
static bool look_at_mask(struct gpumap_mask *mask, uint32_t row,
			 uint32_t *again)
{
	const struct gpumap_mask_view *view = NULL;
	int ret = gpumap_mask_get(map, mask, row, &view);
	bool good;

	*again += ret == -EAGAIN;
	if (ret != 0)
		return ret == -EAGAIN;
	good = is_whole(view);
	return good || !gpumap_mask_holds(mask);
}

static bool look_at_row(struct gpumap_view *view, uint32_t i, uint32_t *again)
{
	int row = gpumap_view_get(view, i);

	if (row != -EAGAIN)
		return row == (int)i;
	++*again;
	row = gpumap_view_refresh(map, view);
	return row == 0 || row == -EAGAIN;
}

/* Ask for everything else about published objects. */
static bool ask(void)
{
	struct gpumap_mesh mesh = { .size = sizeof(mesh) };
	struct gpumap_mesh_group group = { .size = sizeof(group) };
	struct gpumap_mesh_stats stats = { .size = sizeof(stats) };
	struct gpumap_mask_info info = { .size = sizeof(info) };
	struct gpumap_mesh_place place;
	uint32_t rows[ROWS], ranks[ROWS], cursors[3] = { 0 };
	char name[GPUMAP_NAME_MAX + 1];

	return gpumap_mask_next(map, &cursors[0], name) == 1 &&
	       gpumap_mask_read(map, "mask", &info, rows, ROWS) == 0 &&
	       gpumap_mesh_next(map, &cursors[1], name) == 1 &&
	       gpumap_mesh_read(map, "mesh", &mesh, rows, ROWS) == 0 &&
	       gpumap_mesh_place(&mesh, 1, &place) == 0 && place.tp == 1 &&
	       gpumap_mesh_group(map, "mesh", "tp_0", &group, ranks, rows,
				 ROWS) == 0 &&
	       gpumap_mesh_next_group(map, "mesh", GPUMAP_MESH_ANY, &cursors[2],
				      &group) == 1 &&
	       gpumap_mesh_within(map, "mesh", "tp_0", 1) == 1 &&
	       gpumap_mesh_stats(map, "mesh", &stats) == 0;
}

/* An object that is being published may have to be asked for again. */
static bool ask_for_all(void)
{
	for (int i = 0; i < 1000; i++)
		if (ask())
			return true;
	return false;
}

static void confined(struct gpumap_mask *mask)
{
	uint32_t masks = 0, meshes = 0;
	struct gpumap_view view;
	size_t had;

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
		leave(77);
	had = allocated();
	if (!ask_for_all())
		leave(1);
	if (gpumap_mesh_view(map, "mesh", "tp_0", GPUMAP_MESH_ROWS, &view) != 0)
		leave(2);
	for (uint32_t i = 0; i < LOOKUPS; i++) {
		if (!look_at_mask(mask, i % ROWS, &masks))
			leave(3);
		if (!look_at_row(&view, i % ROWS, &meshes))
			leave(4);
		/* Go on until both publishers have been seen to publish. */
		if (i == LOOKUPS / 2 && (masks < VERSIONS || meshes < VERSIONS))
			i -= ROWS;
	}
	leave(allocated() == had ? 0 : 5);
}

static void a_child_looks_at_everything(struct gpumap_mask *mask)
{
	int status = -1, refused = 0;
	pid_t child = fork();

	if (child == 0)
		confined(mask);
	for (uint32_t i = 0; waitpid(child, &status, WNOHANG) == 0; i++) {
		refused += publish_mask(i % 2) != 0 || publish_mesh() != 0;
		if (refused != 0) /* or it would wait for ever for the next */
			kill(child, SIGKILL);
		story_nap(1000);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		SKIP(3, "this kernel refuses strict mode");
		return;
	}
	EQ(refused, 0);
	OK(!WIFSIGNALED(status));
	EQ(WEXITSTATUS(status), 0);
}

TAP_CASE()
{
	struct gpumap_mask *mask = NULL;

#ifdef GM_SANITIZED
	SKIP(1, "sanitizers make system calls of their own");
	return tap_done();
#endif
	agent_make(&agent, "[host]\nrows = 2\n");
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent))) &&
	    EQ(publish_mask(0), 0) && EQ(publish_mesh(), 0) &&
	    EQ(gpumap_mask_open(map, "mask", 0, &mask), 0))
		a_child_looks_at_everything(mask);
	gpumap_mask_close(map, mask);
	story_finish(&agent, map);
	agent_remove(&agent);
	return tap_done();
}
