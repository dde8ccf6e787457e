/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Time jobs on rows beside the same jobs on a host row.  A job's operands are
 * in the arena, so a card's time includes what it takes to get them there and
 * back, and the time of every row the way to its worker and back.
 */

#include <errno.h>
#include <stdio.h>

#include "agent/ctl/clock.h"
#include "agent/ctl/calibrate.h"
#include "shm/worth.h"

#define SIZES   5u
#define LARGEST UINT64_C(1048576) /* elements */
#define LIMIT_S 60u
#define ROUNDS  9u

static const uint64_t sizes[SIZES] = { 4096, 16384, 65536, 262144, LARGEST };

/* The operation that is timed for a kind of work. */
static const struct {
	uint32_t work; /* enum gpumap_work */
	uint32_t op;
} timed[] = {
	{ GPUMAP_WORK_FILL, GPUMAP_OP_FILL },
	{ GPUMAP_WORK_COPY, GPUMAP_OP_COPY },
	{ GPUMAP_WORK_SCALE, GPUMAP_OP_SCALE },
	{ GPUMAP_WORK_AXPY, GPUMAP_OP_AXPY },
	{ GPUMAP_WORK_CAST, GPUMAP_OP_CAST },
	{ GPUMAP_WORK_REDUCE, GPUMAP_OP_SUM },
	{ GPUMAP_WORK_MASK, GPUMAP_OP_MASK_ADD },
};

#define N_TIMED (sizeof(timed) / sizeof(timed[0]))

struct times {
	uint64_t ns[N_TIMED][SIZES];
};

struct measuring {
	const struct gm_ctl *ctl;
	struct gpumap_session *session;
	uint64_t rounds;
	uint32_t host; /* the row that others are compared with */
};

/* ---- timing -------------------------------------------------------------- */

/* Returns 0 with the time of one job, or its error. */
static int time_once(struct gpumap_session *session, uint32_t row,
		     const struct gpumap_job *job, uint64_t *ret_ns)
{
	uint64_t from = gm_clock_ns(), until;
	struct gpumap_done done;
	int ret = gpumap_submit(session, row, job, 1);

	until = from + LIMIT_S * UINT64_C(1000000000);
	if (ret == 0)
		ret = gpumap_wait(session, &done, 1, until);
	if (ret < 0)
		return ret;
	*ret_ns = gm_clock_ns() - from;
	return done.status;
}

static int time_best(const struct measuring *m, uint32_t row,
		     const struct gpumap_job *job, uint64_t *ret_ns)
{
	*ret_ns = UINT64_MAX;
	for (uint64_t i = 0; i < m->rounds; i++) {
		uint64_t ns;
		int ret = time_once(m->session, row, job, &ns);

		if (ret != 0)
			return ret;
		if (ns < *ret_ns)
			*ret_ns = ns;
	}
	return 0;
}

/* An operation that the device does not have takes for ever. */
static int time_row(const struct measuring *m, uint32_t row,
		    struct times *ret_times)
{
	struct gpumap_job job = { .dtype = GPUMAP_DTYPE_F32,
				  .to = GPUMAP_DTYPE_F16,
				  .alpha = 0.5 };
	void *memory[3] = { NULL };
	int ret = 0;

	for (int i = 0; i < 3 && ret == 0; i++)
		ret = gpumap_alloc(m->session, row, LARGEST * sizeof(float),
				   &memory[i]);
	for (size_t i = 0; i < N_TIMED; i++)
		for (size_t k = 0; k < SIZES && ret == 0; k++) {
			job.op = timed[i].op;
			job.n = sizes[k];
			job.dst = memory[0];
			job.src = job.op == GPUMAP_OP_FILL ? NULL : memory[1];
			job.mask = memory[2];
			job.mask_n = (uint32_t)sizes[k];
			ret = time_best(m, row, &job, &ret_times->ns[i][k]);
			if (ret == -EOPNOTSUPP)
				ret = 0;
		}
	for (int i = 0; i < 3; i++)
		if (memory[i] != NULL)
			gpumap_free(m->session, memory[i]);
	return ret;
}

/* ---- rows ---------------------------------------------------------------- */

static bool serves(const struct gpumap_device *d)
{
	return d->state == GPUMAP_DEVICE_READY &&
	       d->kind != GPUMAP_DEVICE_DUMMY &&
	       (d->flags & GPUMAP_DEVICE_CORDONED) == 0;
}

/* List the rows to calibrate, and find the host row with the fewest CPUs.
 * Returns an exit status. */
static int choose_rows(struct measuring *m, uint32_t *ret_rows, uint32_t *ret_n)
{
	uint32_t n = gpumap_device_count(m->ctl->map), least = UINT32_MAX;

	*ret_n = 0;
	for (uint32_t row = 0; row < n; row++) {
		struct gpumap_device d = { .size = sizeof(d) };
		int ret = gpumap_device_read(m->ctl->map, row, &d);

		if (ret != 0)
			return gm_ctl_fail(m->ctl, ret, "row %u", row);
		if (!serves(&d))
			continue;
		ret_rows[(*ret_n)++] = row;
		if (d.kind == GPUMAP_DEVICE_HOST && d.units < least) {
			least = d.units;
			m->host = row;
		}
	}
	if (least == UINT32_MAX) {
		fprintf(stderr, "gpumapctl: no host row is READY to compare "
				"others with\n");
		return GM_EXIT_FAILED;
	}
	if (m->ctl->n_rows > 0) {
		*ret_n = m->ctl->n_rows;
		for (uint32_t i = 0; i < *ret_n; i++)
			ret_rows[i] = m->ctl->rows[i];
	}
	return GM_EXIT_OK;
}

static int calibrate_row(const struct measuring *m, uint32_t row,
			 const struct times *host)
{
	struct gpumap_policy policy = { .size = sizeof(policy) };
	struct times times;
	int ret = gpumap_policy_read(m->ctl->map, row, &policy);

	/* The thresholds of work that is not measured here stay, unless they
	 * are the defaults, which a later version may change. */
	for (uint32_t i = 0; i < GPUMAP_WORKS; i++)
		if (policy.least[i] == gm_worth_default(i))
			policy.least[i] = 0;
	if (ret == 0)
		ret = time_row(m, row, &times);
	if (ret != 0)
		return gm_ctl_fail(m->ctl, ret, "measure row %u", row);
	for (size_t i = 0; i < N_TIMED; i++)
		policy.least[timed[i].work] =
			gm_worth_least(sizes, host->ns[i], times.ns[i], SIZES,
				       gm_worth_default(timed[i].work));
	ret = gpumap_policy_set(m->ctl->map, &policy);
	return ret == 0 ? GM_EXIT_OK
			: gm_ctl_fail(m->ctl, ret, "set row %u", row);
}

static int calibrate_rows(const struct measuring *m, const uint32_t *rows,
			  uint32_t n)
{
	uint32_t n_others = 0;
	struct times host;
	int ret = time_row(m, m->host, &host);

	if (ret != 0)
		return gm_ctl_fail(m->ctl, ret, "measure row %u", m->host);
	for (uint32_t i = 0; i < n && ret == GM_EXIT_OK; i++) {
		if (rows[i] == m->host)
			continue;
		ret = calibrate_row(m, rows[i], &host);
		n_others++;
	}
	if (n_others > 0)
		return ret;
	fprintf(stderr,
		"gpumapctl: there is no other row to compare with row %u, the "
		"host row with the fewest CPUs\n",
		m->host);
	return GM_EXIT_FAILED;
}

int gm_ctl_calibrate(struct gm_ctl *ctl)
{
	struct measuring m = { .ctl = ctl,
			       .rounds = ctl->rounds != 0 ? ctl->rounds
							  : ROUNDS };
	struct gpumap_session_opts opts = {
		.size = sizeof(opts),
		.arena_bytes = gm_ctl_room(4 * LARGEST * sizeof(float)),
	};
	uint32_t rows[GPUMAP_ROWS_MAX], n;
	int ret = choose_rows(&m, rows, &n);

	if (ret != GM_EXIT_OK)
		return ret;
	ret = gpumap_session_open(ctl->map, &opts, &m.session);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "open a session");
	ret = calibrate_rows(&m, rows, n);
	gpumap_session_close(m.session);
	return ret;
}
