/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks collectives whose memory is taken away while they run: its
 * registration is given back, it loses its pages, it was never registered, or
 * the communicator is closed.  Every part ends with a status, memory that was
 * given back is no longer used, the workers survive, and other sessions are not
 * disturbed.
 *
 * With STAGE_CUDA the rows are cards.
 */

#include <fcntl.h>
#include <sys/mman.h>

#include "tests/support/story_rows.h"
#include "tests/support/raw.h"
#include "shm/control_comm.h"

#define DEPTH 64u
#define RANGE (UINT64_C(1) << 20)

/* Bytes of memory of each rank; the collective works on them in place. */
#define BYTES (UINT64_C(4) << 20)

static struct agent agent;
static struct gpumap *map;
static char path[192];
static uint64_t restarts[2]; /* of the rows, at the beginning */

static uint64_t handle_of(uint32_t i)
{
	return gm_handle_make(1, GM_BUFFER_REGISTERED, 0, i);
}

/* Open a session that registers memory for both ranks as its first buffer and
 * as its second. */
static int open_all(struct raw *c)
{
	static const uint32_t rows[] = { 0, 1 };
	struct gm_comm_open open = { .n_ranks = 2 };
	int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ret = fd < 0 ? -errno : 0;

	if (ret == 0 && (ftruncate(fd, 2 * BYTES) != 0 ||
			 fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0))
		ret = -errno;
	if (ret == 0)
		ret = raw_open_queue(c, path, 0, DEPTH, RANGE);
	if (ret == 0)
		ret = raw_queue(c, 1);
	for (uint32_t i = 0; i < 4 && ret == 0; i++) {
		const struct gm_register ask = { .handle = handle_of(i / 2),
						 .bytes = 2 * BYTES,
						 .row = i % 2 };

		ret = raw_register(c, &ask, fd);
	}
	if (ret == 0)
		ret = raw_ask_tail(c, GM_CONTROL_COMM_OPEN, &open, sizeof(open),
				   rows, sizeof(rows));
	return EQ(ret, 0) ? fd : -1;
}

static void close_all(struct raw *c, int fd)
{
	raw_close(c);
	if (fd >= 0)
		close(fd);
}

/* Post one row's part of a sum over both ranks, in the memory of @handle. */
static void post(struct raw *c, uint32_t row, uint64_t handle,
		 uint64_t deadline_ns)
{
	struct gm_entry pair[2] = { raw_entry(&c->row[row],
					      GPUMAP_OP_ALL_REDUCE) };

	pair[0].flags = GM_ENTRY_MORE;
	pair[0].dtype = GPUMAP_DTYPE_F32;
	pair[0].n = BYTES / sizeof(float);
	pair[0].value = 1; /* the communicator */
	pair[0].src = pair[0].dst = row * BYTES;
	pair[0].src_buffer = pair[0].dst_buffer = handle;
	pair[1] = (struct gm_entry){ .op = GM_OP_MORE,
				     .incarnation = (uint32_t)deadline_ns,
				     .zero = (uint32_t)(deadline_ns >> 32) };
	raw_post(&c->row[row], pair, 2);
}

/* Returns the status of the next part that ends on a row, or 1 when none
 * does. */
static int32_t end_of(struct raw *c, uint32_t row)
{
	uint64_t until = raw_now() + RAW_PATIENCE_NS;
	int32_t status[2];

	for (int i = 0; i < 2; i++) {
		uint32_t position;

		while (!raw_take(&c->row[row], &position, &status[i])) {
			if (raw_is_over(c) || raw_now() > until)
				return 1;
			raw_nap(100000);
		}
	}
	return status[0];
}

/* Sleep for a time that ends before, during or after the collective, by
 * @round. */
static void moment(int round)
{
	raw_nap((uint64_t)story_moment(round, 4000000));
}

static void all_live(void)
{
	struct raw c;
	int fd = open_all(&c);

	for (uint32_t row = 0; row < 2; row++)
		EQ(story_device(map, row).restarts, (intmax_t)restarts[row]);
	if (fd >= 0) {
		post(&c, 0, handle_of(0), 0);
		post(&c, 1, handle_of(0), 0);
		EQ(end_of(&c, 0), 0);
		EQ(end_of(&c, 1), 0);
	}
	close_all(&c, fd);
}

/* A request to give memory back is answered only when no part works on the
 * memory. */
static void it_is_given_back(void)
{
	int rounds = story_rounds(), wrong = 0, late = 0;

	for (int i = 0; i < rounds; i++) {
		struct raw c;
		int fd = open_all(&c);

		if (fd < 0)
			return;
		post(&c, 0, handle_of(0), 0);
		post(&c, 1, handle_of(1), 0);
		moment(i);
		wrong += raw_forget(&c, handle_of((uint32_t)i % 2)) != 0;
		for (uint32_t row = 0; row < 2; row++) {
			int32_t status = end_of(&c, row);

			late += status == -EFAULT;
			wrong += status != 0 && status != -EFAULT;
		}
		/* The memory belongs to neither rank any more. */
		post(&c, 0, handle_of((uint32_t)i % 2), 0);
		post(&c, 1, handle_of(1 - (uint32_t)i % 2), 0);
		wrong += end_of(&c, 0) == 0;
		wrong += end_of(&c, 1) == 0;
		close_all(&c, fd);
	}
	EQ(wrong, 0);
	NOTE("%d of %d parts were too late", late, 2 * rounds);
	all_live();
}

/* A part whose peer never comes holds the memory no longer than the part's
 * deadline. */
static void it_is_given_back_in_time(void)
{
	struct raw c;
	int fd = open_all(&c);

	if (fd < 0)
		return;
	post(&c, 0, handle_of(0), raw_now() + 300000000);
	EQ(raw_forget(&c, handle_of(0)), 0);
	EQ(end_of(&c, 0), -ETIME);
	close_all(&c, fd);
	all_live();
}

/* A rank whose pages are gone reads zeroes, or its session ends. */
static void pages_are_taken(void)
{
	int rounds = story_rounds(), wrong = 0;

	for (int i = 0; i < rounds; i++) {
		struct raw c;
		int fd = open_all(&c);

		if (fd < 0)
			return;
		post(&c, 0, handle_of(0), 0);
		post(&c, 1, handle_of(0), 0);
		for (int k = 0; k < 8; k++) {
			moment(i + k);
			wrong += fallocate(fd,
					   FALLOC_FL_PUNCH_HOLE |
						   FALLOC_FL_KEEP_SIZE,
					   0, 2 * BYTES) != 0;
		}
		for (uint32_t row = 0; row < 2; row++) {
			int32_t status = end_of(&c, row);

			wrong += status != 0 &&
				 !(status == 1 && raw_is_over(&c));
		}
		close_all(&c, fd);
	}
	EQ(wrong, 0);
	all_live();
}

/* The communicator is closed while its ranks work: once, and again before the
 * first request is answered. */
static void groups_are_closed(void)
{
	const struct gm_comm_close close = { .comm = 1 };
	int rounds = story_rounds(), wrong = 0;

	for (int i = 0; i < rounds; i++) {
		struct raw c;
		struct raw_record record;
		int fd = open_all(&c);

		if (fd < 0)
			return;
		post(&c, 0, handle_of(0), 0);
		if (i % 3)
			post(&c, 1, handle_of(0), 0);
		moment(i);
		record = (struct raw_record){
			.header = raw_header(&c, GM_CONTROL_COMM_CLOSE,
					     sizeof(close), 0),
			.body = &close,
			.body_bytes = sizeof(close),
		};
		wrong += raw_send(&c, &record, 0) != 0;
		wrong += raw_send(&c, &record, 0) != 0;
		for (uint32_t row = 0; row < (i % 3 ? 2u : 1u); row++) {
			int32_t status = end_of(&c, row);

			wrong += status != 0 && status != -EIO &&
				 status != -ESTALE;
		}
		/* The closed communicator does not hold the memory. */
		if (i % 2)
			raw_forget(&c, handle_of(0));
		close_all(&c, fd);
	}
	EQ(wrong, 0);
	all_live();
}

TAP_CASE()
{
	stage_make(&agent, "[host]\nrows = 2\n");
	snprintf(path, sizeof(path), "%s/%s.sock", agent.dir, agent.instance);
	if (OK(agent_start(&agent)) && OK((map = story_attach(&agent)))) {
		for (uint32_t row = 0; row < 2; row++)
			restarts[row] = story_device(map, row).restarts;
		it_is_given_back();
		it_is_given_back_in_time();
		pages_are_taken();
		groups_are_closed();
	}
	story_finish(&agent, map);
	stage_end(&agent);
	return tap_done();
}
