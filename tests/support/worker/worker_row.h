/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker_row.h - a test in gpumapd's place: it starts gpumap-worker for a row,
 * tells it of sessions, and sees how it ends.
 */
#ifndef GM_TEST_SUPPORT_WORKER_WORKER_ROW_H
#define GM_TEST_SUPPORT_WORKER_WORKER_ROW_H

#include <signal.h>
#include <sys/wait.h>

#include "shm/journal.h"
#include "tests/support/worker/queue_client.h"
#include "tests/support/tap.h"

#define ROW   3u
#define MIB   (UINT64_C(1) << 20)
#define OTHER 65534u /* whom root's workers become */

/* gpumapd's data of one row. */
struct row {
	char lock[64];
	int journal_fd;
	int group_page_fd;
	struct gm_journal *journal;
	struct gm_group_page *group_page;
	pid_t pid;
	int pair;
	char failed[256]; /* what FAILED said */
	int code;
	char ready[256];      /* what READY said */
	const char *more[12]; /* options of the worker, before NULL */
};

void row_make(struct row *row);
void row_drop(struct row *row);

/* The next record.  Returns its type, 0 at the end or where none came. */
uint32_t row_hear(struct row *row, struct gm_wire *ret_wire);
void row_launch(struct row *row, bool recover);

/* Returns whether it said READY. */
bool row_start(struct row *row, bool recover);

/* Returns the exit status, 128 + signal, or -1 while it lives on. */
int row_ended(struct row *row);
void row_tell(struct row *row, const struct gm_wire *wire, const int *fds,
	      size_t n_fds);
void row_tell_about(struct row *row, uint32_t type,
		    const struct hand_client *c);

/* Returns the status of ATTACHED, 1 where something else came. */
int row_attach(struct row *row, const struct hand_client *c);

/* A worker that has drained stays until it is to leave; a recovery process does
 * not.  Returns as row_ended(). */
int row_drain(struct row *row);
bool row_becomes_odd(gm_a32 *word);
bool row_grows_past(gm_a64 *count, uint64_t seen);

/* Does the worker start here?  Skips, with its reason, when io_uring is
 * refused. */
bool row_can_run(void);

#endif
