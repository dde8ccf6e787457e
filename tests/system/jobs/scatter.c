/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks that a model's weights can be spread as a program would do it: one
 * file that is registered once, a buffer on each row, scatters out and back.
 * Meanwhile a worker dies or sleeps, and other processes read the shared
 * memory.
 */

#include <sys/wait.h>

#include "tests/support/scatter_rig.h"

static struct agent agent;
static struct gpumap *map;

static bool is_twice(const float *got, const float *of)
{
	for (uint64_t i = 0; i < FLOATS; i++)
		if (got[i] != 2 * of[i])
			return false;
	return true;
}

static void number(float *at)
{
	for (uint64_t i = 0; i < FLOATS; i++)
		at[i] = (float)(i % 1000003);
}

/* Scatter the file out, double it in place, and scatter it back.  Returns the
 * result of the last scatter. */
static int double_it(struct gpumap_session *s, const struct file *from,
		     const struct file *to, const uint64_t *buffers,
		     struct gpumap_tile *ret_tiles)
{
	struct gpumap_scatter_opts opts = spread();
	struct gpumap_job job = copy_all();
	int ret;

	job.src_buffer = from->buffer;
	opts.dst_buffers = buffers;
	ret = gpumap_scatter(s, &job, &opts, ret_tiles, ROWS);
	if (ret != ROWS)
		return ret;
	job.op = GPUMAP_OP_SCALE;
	job.alpha = 2;
	opts.src_buffers = buffers;
	ret = gpumap_scatter(s, &job, &opts, ret_tiles, ROWS);
	if (ret != ROWS)
		return ret;
	job = copy_all();
	job.dst_buffer = to->buffer;
	opts.dst_buffers = NULL;
	return gpumap_scatter(s, &job, &opts, ret_tiles, ROWS);
}

static void what_is_spread_comes_back(void)
{
	struct gpumap_session *s = NULL;
	struct gpumap_tile tiles[ROWS];
	struct file from, to;
	uint64_t buffers[ROWS];

	EQ(gpumap_session_open(map, NULL, &s), 0);
	from = file_make(s);
	to = file_make(s);
	buffers[0] = alloc_on(s, 1);
	buffers[1] = alloc_on(s, 0);
	number(from.at);
	EQ(double_it(s, &from, &to, buffers, tiles), ROWS);
	OK(tiles[0].row == 1 && tiles[0].first == 0 &&
	   tiles[0].n == FLOATS / 8 * 3 && tiles[1].n == FLOATS / 8 * 5);
	OK(is_twice(to.at, from.at));
	/* A row cannot use another row's buffer. */
	buffers[0] = buffers[1];
	EQ(double_it(s, &from, &to, buffers, tiles), -EOPNOTSUPP);
	file_end(s, &from);
	file_end(s, &to);
	gpumap_session_close(s);
}

/* The rows hold half as many bytes, so a tile begins at another offset in each
 * operand. */
static void floats_are_kept_short(void)
{
	struct gpumap_scatter_opts opts = spread();
	struct gpumap_session *s = NULL;
	struct gpumap_tile tiles[ROWS];
	struct gpumap_job job = copy_all();
	struct file from, to;
	uint64_t buffers[ROWS];
	bool pass = true;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	from = file_make(s);
	to = file_make(s);
	buffers[0] = alloc_on(s, 1);
	buffers[1] = alloc_on(s, 0);
	/* Half of the values are exact in f16, others are ties between two
	 * values of f16 and must be rounded. */
	for (uint64_t i = 0; i < FLOATS; i++)
		from.at[i] = (float)(i % 4096);
	job.op = GPUMAP_OP_CAST;
	job.to = GPUMAP_DTYPE_F16;
	job.src_buffer = from.buffer;
	opts.dst_buffers = buffers;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	job.dtype = GPUMAP_DTYPE_F16;
	job.to = GPUMAP_DTYPE_F32;
	job.src_buffer = 0;
	job.dst_buffer = to.buffer;
	opts.src_buffers = buffers;
	opts.dst_buffers = NULL;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	for (uint64_t i = 0; i < FLOATS && pass; i++) {
		uint64_t k = i % 4096;

		/* From 2048 on the values of f16 are even. */
		if (k > 2048 && k % 2)
			k += k % 4 == 1 ? (uint64_t)-1 : 1;
		pass = to.at[i] == (float)k;
	}
	OK(pass);
	/* The destination would end 4 bytes behind its file. */
	job.src_buffer = from.buffer;
	job.dst_buffer = to.buffer;
	job.dst_at = 4;
	opts.src_buffers = NULL;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -ERANGE);
	file_end(s, &from);
	file_end(s, &to);
	gpumap_session_close(s);
}

/* A mask that is shorter than a tile repeats over all elements: each tile
 * continues where the one before it ends. */
static void masks_go_on_over_tiles(void)
{
	enum { EACH = 1000 }; /* no divisor of a tile */
	struct gpumap_scatter_opts opts = spread();
	struct gpumap_session *s = NULL;
	struct gpumap_tile tiles[ROWS];
	struct gpumap_job job = copy_all();
	unsigned char *hides;
	struct file from, to;
	void *memory = NULL;
	bool pass = true;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	from = file_make(s);
	to = file_make(s);
	EQ(gpumap_alloc(s, 0, EACH, &memory), 0);
	hides = memory;
	for (uint32_t i = 0; i < EACH; i++)
		hides[i] = i % 7 == 0;
	number(from.at);
	job.op = GPUMAP_OP_MASK_BOOL;
	job.src_buffer = from.buffer;
	job.dst_buffer = to.buffer;
	job.mask = hides;
	job.mask_n = EACH;
	job.mask_first = 5;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	for (uint64_t i = 0; i < FLOATS && pass; i++)
		pass = (i + 5) % EACH % 7 == 0 ? to.at[i] < -1e38f
					       : to.at[i] == from.at[i];
	OK(pass);
	/* The mask lies in registered memory: the source's own first floats. */
	job.op = GPUMAP_OP_MASK_ADD;
	job.mask_buffer = from.buffer;
	job.mask_at = 40;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	for (uint64_t i = 0; i < FLOATS && pass; i++)
		pass = to.at[i] == from.at[i] + from.at[10 + (i + 5) % EACH];
	OK(pass);
	job.mask_first = EACH;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -EINVAL);
	job.mask_first = 0;
	job.mask_at = BYTES - 4;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -ERANGE);
	job.mask_buffer = 0;
	job.mask = &pass;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -ERANGE);
	file_end(s, &from);
	file_end(s, &to);
	gpumap_session_close(s);
}

static void a_dead_worker_takes_its_part_only(void)
{
	struct gpumap_session *s = NULL;
	struct gpumap_device device;
	struct gpumap_tile tiles[ROWS];
	struct file from, to;
	uint64_t buffers[ROWS];

	EQ(gpumap_session_open(map, NULL, &s), 0);
	from = file_make(s);
	to = file_make(s);
	buffers[0] = alloc_on(s, 1);
	buffers[1] = alloc_on(s, 0);
	number(from.at);
	memset(to.at, 0, BYTES);
	EQ(double_it(s, &from, &to, buffers, tiles), ROWS);
	device = story_device(map, 1);
	EQ(kill((pid_t)device.worker_pid, SIGKILL), 0);
	OK(story_back(map, 1, device.restarts));
	/* The dead worker's buffer is gone, and no other. */
	EQ(double_it(s, &from, &to, buffers, tiles), -ESTALE);
	OK(tiles[0].row == 1 && tiles[0].status == -ESTALE);
	OK(tiles[1].row == 0 && tiles[1].status == 0);
	EQ(gpumap_buffer_free(s, buffers[0]), 0);
	buffers[0] = alloc_on(s, 1);
	/* The new worker has been told of the registrations. */
	memset(to.at, 0, BYTES);
	EQ(double_it(s, &from, &to, buffers, tiles), ROWS);
	OK(is_twice(to.at, from.at));
	file_end(s, &from);
	file_end(s, &to);
	gpumap_session_close(s);
}

/* Kill the worker once the other row has done its tile; by then the scatter has
 * submitted both. */
static pid_t kill_when_seen(pid_t worker, const volatile float *seen)
{
	pid_t child = fork();

	if (child != 0)
		return child;
	while (*seen == 0)
		story_nap(200);
	kill(worker, SIGKILL);
	_exit(0);
}

/* Copy over two rows, of which the first row's worker dies.  Returns the result
 * of the scatter. */
static int scatter_and_die(struct gpumap_session *s, uint32_t flags,
			   const struct file *from, const struct file *to,
			   struct gpumap_tile *ret_tiles)
{
	struct gpumap_device device = story_device(map, 1);
	struct gpumap_scatter_opts opts = spread();
	struct gpumap_job job = copy_all();
	pid_t child;
	int ret;

	memset(to->at, 0, BYTES);
	job.src_buffer = from->buffer;
	job.dst_buffer = to->buffer;
	opts.flags = flags;
	OK(process_stop((pid_t)device.worker_pid));
	child = kill_when_seen((pid_t)device.worker_pid, &to->at[FLOATS - 1]);
	ret = gpumap_scatter(s, &job, &opts, ret_tiles, ROWS);
	waitpid(child, NULL, 0);
	OK(story_back(map, 1, device.restarts));
	return ret;
}

static void a_tile_is_done_again_elsewhere(void)
{
	struct gpumap_scatter_opts opts = spread();
	struct gpumap_session *s = NULL;
	struct gpumap_tile tiles[ROWS];
	struct gpumap_job job = copy_all();
	struct file from, to;
	uint64_t buffers[ROWS] = { 0 };

	EQ(gpumap_session_open(map, NULL, &s), 0);
	from = file_make(s);
	to = file_make(s);
	number(from.at);
	job.src_buffer = from.buffer;
	job.dst_buffer = to.buffer;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	EQ(scatter_and_die(s, 0, &from, &to, tiles), -EIO);
	OK(tiles[0].row == 1 && tiles[0].status == -EIO);
	OK(tiles[1].row == 0 && tiles[1].status == 0);
	EQ(scatter_and_die(s, GPUMAP_SCATTER_FALLBACK, &from, &to, tiles),
	   ROWS);
	OK(tiles[0].row != 1 && tiles[0].status == 0);
	OK(tiles[0].first == 0 && tiles[0].n == FLOATS / 8 * 3);
	EQ(story_device(map, tiles[0].row).kind, GPUMAP_DEVICE_HOST);
	EQ(memcmp(from.at, to.at, BYTES), 0);
	/* Jobs that cannot be done twice, or not on another row. */
	opts.flags = GPUMAP_SCATTER_FALLBACK;
	job.op = GPUMAP_OP_AXPY;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -EINVAL);
	job.op = GPUMAP_OP_SCALE;
	job.src_buffer = to.buffer;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -EINVAL);
	job.src_buffer = from.buffer;
	opts.dst_buffers = buffers;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -EINVAL);
	opts.dst_buffers = NULL;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), ROWS);
	opts.flags = GPUMAP_SCATTER_FALLBACK << 1;
	EQ(gpumap_scatter(s, &job, &opts, tiles, ROWS), -E2BIG);
	file_end(s, &from);
	file_end(s, &to);
	gpumap_session_close(s);
}

/* The worker sleeps while memory is asked for, and finds out later that the
 * caller has given up. */
static void a_late_allocation_is_given_back(void)
{
	struct gpumap_session *s = NULL;
	struct gpumap_device device;
	struct gpumap_session_counts counts = { .size = sizeof(counts) };
	uint64_t first, late = 0;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	first = alloc_on(s, 0);
	device = story_device(map, 0); /* the allocation may have started it */
	OK(process_stop((pid_t)device.worker_pid));
	EQ(gpumap_buffer_alloc(s, 0, BYTES, 0, story_now() + 20000000, &late),
	   -ETIME);
	EQ(late, 0);
	EQ(kill((pid_t)device.worker_pid, SIGCONT), 0);
	EQ(gpumap_buffer_free(s, first), 0);
	EQ(gpumap_buffer_free(s, alloc_on(s, 0)), 0);
	/* All of it has been answered: three allocations and three frees. */
	for (int i = 0; i < STORY_LOOKS; i++) {
		struct gpumap_done done;

		gpumap_poll(s, &done, 1);
		gpumap_session_counts(s, &counts);
		if (counts.completed == 6)
			break;
		story_nap(1000);
	}
	EQ(counts.submitted, 6);
	EQ(counts.completed, 6);
	EQ(story_device(map, 0).worker_pid, device.worker_pid);
	gpumap_session_close(s);
}

/* Another session of this process imports the buffer and copies it out. */
static bool imported_is(uint64_t export_id, float value)
{
	struct gpumap_session *s = NULL;
	struct gpumap_job job = copy_all();
	struct gpumap_done done = { .status = 1 };
	struct file to;
	bool good = true;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	to = file_make(s);
	job.dst_buffer = to.buffer;
	if (!EQ(gpumap_buffer_import(s, export_id, GPUMAP_BUFFER_READ_ONLY,
				     &job.src_buffer),
		0))
		NOTE("%s", gpumap_refusal(map));
	EQ(gpumap_submit(s, 1, &job, 1), 0);
	EQ(gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(done.status, 0);
	for (uint64_t i = 0; i < FLOATS; i++)
		good &= to.at[i] == value;
	EQ(gpumap_buffer_free(s, job.src_buffer), 0);
	file_end(s, &to);
	gpumap_session_close(s);
	return good;
}

/* Read an export in a process that has its descriptor and no session.  The
 * descriptor of a card's memory is for the card's driver alone. */
static int look(uint64_t number)
{
	struct gpumap_export_info info = { .size = sizeof(info) };
	struct gpumap *own = story_attach(&agent);
	struct gpumap_device device;
	const float *at;
	int fd = -1;

	if (own == NULL)
		return 1;
	if (gpumap_export_fd(own, number, &info, &fd) != 0)
		return 2;
	if (info.bytes != BYTES || info.row != 1)
		return 3;
	device = story_device(own, 1);
	if (device.kind == GPUMAP_DEVICE_CUDA)
		return 0;
	at = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return 4;
	for (uint64_t i = 0; i < FLOATS; i++)
		if (at[i] != 6)
			return 5;
	gpumap_detach(own);
	return 0;
}

static void others_have_it_too(void)
{
	struct gpumap_job job = { .op = GPUMAP_OP_FILL,
				  .dtype = GPUMAP_DTYPE_F32,
				  .n = FLOATS };
	struct gpumap_session *s = NULL;
	struct gpumap_done done;
	const float six = 6;
	uint64_t buffer, export_id = 0;
	int status = -1;
	pid_t child;

	EQ(gpumap_session_open(map, NULL, &s), 0);
	buffer = alloc_on(s, 1);
	memcpy(&job.pattern, &six, sizeof(six));
	job.dst_buffer = buffer;
	EQ(gpumap_submit(s, 1, &job, 1), 0);
	EQ(gpumap_wait(s, &done, 1, GPUMAP_NO_DEADLINE), 1);
	EQ(done.status, 0);
	if (!EQ(gpumap_buffer_export(s, buffer, &export_id), 0))
		NOTE("%s", gpumap_refusal(map));
	OK(imported_is(export_id, six));
	child = fork();
	if (child == 0)
		_exit(look(export_id));
	waitpid(child, &status, 0);
	EQ(status, 0);
	gpumap_session_close(s);
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 2\n");
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return tap_done();
	what_is_spread_comes_back();
	floats_are_kept_short();
	masks_go_on_over_tiles();
	a_dead_worker_takes_its_part_only();
	a_tile_is_done_again_elsewhere();
	a_late_allocation_is_given_back();
	others_have_it_too();
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
	stage_end(&agent);
	return tap_done();
}
