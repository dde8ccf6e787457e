/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/map/transaction.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/log.h"
#include "agent/daemon/base/connection.h"
#include "agent/daemon/base/io_thread.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/publish.h"
#include "agent/daemon/state/state.h"

static void begin_waiting(struct gm_daemon *d);

/* ---- the end ----------------------------------------------------------- */

static void part(struct gm_change *change)
{
	change->connection->user->waiting_bytes -= change->bytes;
	change->connection->change = NULL;
}

/* The connection may be dropped by its own answer. */
static void answer(struct gm_change *change, int status)
{
	const struct gm_change_kind *kind = change->kind;
	struct gm_connection *c = change->connection;
	const struct gm_control *request = &c->pending;

	part(change);
	c->busy++;
	if (status == -EACCES)
		status = -EPERM;
	if (status == 0 && kind->answer != NULL)
		kind->answer(change, c, request);
	else if (status == 0)
		gm_connection_reply(c, request, NULL);
	else if (kind->refuse != NULL)
		kind->refuse(change, c, request, status);
	else
		gm_connection_refuse(c, request, status,
				     change->why[0] ? change->why
						    : strerror(-status));
	gm_connection_resume(c);
	gm_connection_release(c);
}

/* State files that wait for rows: when none is in the middle of its steps.
 * Those that their objects cause begin when all files have been seen: one that
 * had a place already would lose it to the next file's object. */
static void recheck_files(struct gm_daemon *d)
{
	struct gm_changes *changes = d->changes;
	bool is_beginning = changes->is_beginning;

	if (!changes->rows_came || !gm_transactions_drained(d))
		return;
	changes->rows_came = false;
	changes->is_beginning = true;
	gm_state_recheck(d);
	changes->is_beginning = is_beginning;
}

void gm_transactions_row_came(struct gm_daemon *d)
{
	d->changes->rows_came = true;
	recheck_files(d);
	begin_waiting(d);
}

static void drop(struct gm_change *change)
{
	free(change->words);
	free(change->file);
	change->kind->free(change);
}

static void finish(struct gm_change *change, int status)
{
	struct gm_daemon *d = change->d;

	d->changes->in_hand = NULL;
	if (change->connection != NULL)
		answer(change, status);
	drop(change);
	recheck_files(d);
}

/* Before anything was done for it. */
static void refuse(struct gm_change *change, int status)
{
	struct gm_changes *changes = change->d->changes;

	if (change->connection != NULL && change->kind->postpone != NULL)
		status = change->kind->postpone(change, status);
	if (status != 0) {
		finish(change, status);
		return;
	}
	changes->in_hand = NULL;
	change->is_postponed = true;
	TAILQ_INSERT_TAIL(&changes->postponed, change, entry);
	recheck_files(change->d);
}

void gm_transactions_again(struct gm_change *change)
{
	struct gm_changes *changes = change->d->changes;

	TAILQ_REMOVE(&changes->postponed, change, entry);
	change->is_postponed = false;
	change->why[0] = '\0';
	TAILQ_INSERT_TAIL(&changes->waiting, change, entry);
	begin_waiting(change->d);
}

void gm_transactions_end(struct gm_change *change, int status)
{
	struct gm_daemon *d = change->d;

	finish(change, status);
	begin_waiting(d);
}

/* ---- the I/O thread's part --------------------------------------------- */

/* @done is told of change->status, and the next one begins when it is over. */
void gm_transactions_give(struct gm_change *change,
			  void (*work)(struct gm_io_job *job),
			  void (*done)(struct gm_io_job *job))
{
	change->job = (struct gm_io_job){ work, done };
	gm_io_thread_submit(change->d->io_thread, &change->job);
}

static struct gm_change *of(struct gm_io_job *job)
{
	return gm_owner(job, struct gm_change, job);
}

static void come_back(struct gm_io_job *job)
{
	struct gm_change *change = of(job);

	change->is_back = true;
	begin_waiting(change->d);
}

void gm_transactions_give_away(struct gm_change *change,
			       void (*work)(struct gm_io_job *job),
			       void (*done)(struct gm_io_job *job))
{
	struct gm_changes *changes = change->d->changes;

	changes->in_hand = NULL;
	changes->away = change;
	change->back = done;
	change->job = (struct gm_io_job){ work, come_back };
	gm_io_thread_submit(change->d->heavy_thread, &change->job);
	begin_waiting(change->d);
}

void gm_transactions_go(struct gm_change *change,
			void (*done)(struct gm_io_job *job))
{
	struct gm_changes *changes = change->d->changes;

	changes->in_hand = NULL;
	TAILQ_INSERT_TAIL(&changes->at_worker, change, entry);
	changes->n_at_worker++;
	change->is_at_worker = true;
	change->back = done;
	begin_waiting(change->d);
}

void gm_transactions_return(struct gm_change *change)
{
	change->is_back = true;
	begin_waiting(change->d);
}

/* One that was gone, and is not any more, or NULL. */
static struct gm_change *returned(const struct gm_changes *changes)
{
	struct gm_change *change = changes->away;

	if (change != NULL && change->is_back)
		return change;
	TAILQ_FOREACH(change, &changes->at_worker, entry)
	{
		if (change->is_back)
			break;
	}
	return change;
}

static void take_up(struct gm_changes *changes, struct gm_change *change)
{
	if (change->is_at_worker) {
		TAILQ_REMOVE(&changes->at_worker, change, entry);
		changes->n_at_worker--;
	} else {
		changes->away = NULL;
	}
	changes->in_hand = change;
	change->is_at_worker = false;
	change->is_back = false;
	change->back(&change->job);
}

static void do_plan(struct gm_io_job *job)
{
	struct gm_change *change = of(job);

	change->status = change->kind->plan(change);
}

static const struct gm_object_image *object_of(const struct gm_change *change)
{
	return (const void *)change->words;
}

static void do_write(struct gm_io_job *job)
{
	struct gm_change *change = of(job);
	struct gm_daemon *d = change->d;

	change->status = 0;
	if (change->object->before_file != NULL)
		change->status = change->object->before_file(d, change->why);
	if (change->status == 0)
		change->status =
			gm_state_file_write(&d->state->dir, change->object,
					    change->file, change->why);
}

static void do_set_aside(struct gm_io_job *job)
{
	struct gm_change *change = of(job);
	char file[GM_STATE_NAME_BYTES];

	gm_state_file_name(change->object, change->name, file);
	change->status = gm_state_dir_set_aside(
		&change->d->state->dir, file, change->why, &change->has_aside);
}

static void do_drop_aside(struct gm_io_job *job)
{
	struct gm_change *change = of(job);
	char file[GM_STATE_NAME_BYTES];

	gm_state_file_name(change->object, change->name, file);
	change->status = gm_state_dir_drop_aside(&change->d->state->dir, file,
						 change->why);
}

static void do_remove(struct gm_io_job *job)
{
	struct gm_change *change = of(job);
	char file[GM_STATE_NAME_BYTES];

	gm_state_file_name(change->object, change->name, file);
	change->status =
		gm_state_dir_remove(&change->d->state->dir, file, change->why);
}

/* ---- publishing -------------------------------------------------------- */

static void show(struct gm_change *change)
{
	if (change->words == NULL) {
		gm_state_written(change->d, change->object, change->file);
		change->file = NULL;
	}
	if (change->kind->before_show != NULL)
		change->kind->before_show(change);
	if (change->words == NULL)
		return;
	gm_publish_store(change->d, change->object, change->words,
			 &change->put);
	change->version = change->put.block.version;
}

/* The file that waited under the name is another one, or is gone. */
static void shown(struct gm_change *change)
{
	if (change->words != NULL)
		gm_state_replaced(change->d, change->object,
				  object_of(change)->name);
	gm_transactions_end(change, 0);
}

static void written(struct gm_io_job *job)
{
	struct gm_change *change = of(job);

	if (change->status == 0) {
		show(change);
		shown(change);
		return;
	}
	if (change->words != NULL)
		gm_directory_abandon(change->d, &change->put);
	gm_transactions_end(change, change->status);
}

/* A file that was set aside counts no longer, removed or not. */
static void replaced(struct gm_io_job *job)
{
	struct gm_change *change = of(job);

	if (change->status != 0)
		gm_log(GM_LOG_ERROR, "state_stays", "name=%s why=%s",
		       object_of(change)->name, gm_quote(change->why).text);
	shown(change);
}

static void may_be_held(struct gm_io_job *job)
{
	struct gm_change *change = of(job);

	if (change->status == 0 && change->has_aside) {
		show(change);
		gm_transactions_give(change, do_drop_aside, replaced);
		return;
	}
	written(job);
}

/* The held object is alone with its name, or out again. */
static void removed_after(struct gm_io_job *job)
{
	struct gm_change *change = of(job);
	const struct gm_block *block = &change->put.block;

	if (change->status == 0) {
		shown(change);
		return;
	}
	gm_directory_withdraw(change->d, block->unit, block->version);
	gm_transactions_end(change, change->status);
}

/* A held object has no file, and that of another one of its name goes.  Where
 * the slot has the other one, it is set aside first, for it could not come back
 * into the slot.  Where the slot has none, the file may be of one that waits,
 * and goes last: until then it counts. */
static void put_held(struct gm_change *change)
{
	change->name = object_of(change)->name;
	if (gm_directory_find(change->d, change->object->number,
			      change->name) != NULL) {
		gm_transactions_give(change, do_set_aside, may_be_held);
		return;
	}
	show(change);
	gm_transactions_give(change, do_remove, removed_after);
}

/* Room for an object, and what its file is to be.  Versions of a name grow,
 * also past the file that waits under it. */
static int make_room(struct gm_change *change)
{
	struct gm_daemon *d = change->d;
	const struct gm_state_waiting *waiting =
		gm_state_find(d, change->object, object_of(change)->name);
	int ret =
		gm_state_may_replace(d, change->object, object_of(change)->name,
				     change->uid, change->why);

	if (waiting != NULL && waiting->file != NULL)
		((struct gm_object_image *)change->words)->version =
			gm_state_file_object(waiting->file)->version;
	if (ret == 0)
		ret = gm_publish_prepare(d, change->object, change->words,
					 change->why, &change->put);
	if (ret != 0 || (object_of(change)->flags & GM_OBJECT_HELD) != 0)
		return ret;
	change->file = gm_state_file_make(d, change->object, change->words);
	if (change->file != NULL)
		return 0;
	gm_directory_abandon(d, &change->put);
	return gm_why(change->why, -ENOMEM, "out of memory");
}

static void put(struct gm_change *change)
{
	int ret = change->words != NULL ? make_room(change) : 0;

	if (ret != 0) {
		finish(change, ret);
		return;
	}
	change->is_put = change->words != NULL;
	if (change->file != NULL)
		gm_transactions_give(change, do_write, written);
	else
		put_held(change);
}

/* ---- taking out -------------------------------------------------------- */

/* Its holder may have ended meanwhile: then it is out already.  Or it waited
 * for its devices, and was never in. */
static void removed(struct gm_io_job *job)
{
	struct gm_change *change = of(job);
	struct gm_daemon *d = change->d;
	int ret = change->status;

	if (ret == 0) {
		gm_state_replaced(d, change->object, change->name);
		ret = gm_directory_remove(d, change->object->number,
					  change->name, change->uid,
					  change->why);
	}
	gm_transactions_end(change, ret == -ENOENT ? 0 : ret);
}

/* ---- the beginning ----------------------------------------------------- */

static void act(struct gm_change *change)
{
	int ret = change->status;

	/* A plan with a row's number may be about another device. */
	if (ret == 0 && change->n_reused != change->d->devices->n_reused)
		ret = gm_why(change->why, -EAGAIN,
			     "a row was given to another device meanwhile: ask "
			     "again");
	if (ret == 0 && change->kind->settle != NULL)
		ret = change->kind->settle(change);
	if (ret != 0)
		refuse(change, ret);
	else if (change->act == GM_CHANGE_NOTHING)
		finish(change, 0);
	else if (change->act == GM_CHANGE_PUT)
		put(change);
	else if (change->act == GM_CHANGE_OWN)
		change->kind->proceed(change);
	else
		gm_transactions_give(change, do_remove, removed);
}

static void planned(struct gm_io_job *job)
{
	struct gm_change *change = of(job);
	struct gm_daemon *d = change->d;

	act(change);
	begin_waiting(d);
}

/* The agent's own, but those that take long: clients can cause any number of
 * them. */
static bool is_prompt(const struct gm_change *change)
{
	return change->connection == NULL && !change->kind->is_heavy;
}

/* The last turn of the client's uid. */
static uint64_t *served(struct gm_changes *changes,
			const struct gm_change *change)
{
	return change->connection != NULL ? &change->connection->user->served
					  : &changes->served;
}

static void begin(struct gm_change *change)
{
	struct gm_changes *changes = change->d->changes;

	TAILQ_REMOVE(&changes->waiting, change, entry);
	changes->in_hand = change;
	if (!is_prompt(change))
		*served(changes, change) = ++changes->turn;
	change->n_reused = change->d->devices->n_reused;
	change->status = change->kind->check(change);
	if (change->status == 0 && change->kind->is_heavy)
		gm_transactions_give_away(change, do_plan, planned);
	else if (change->status == 0 && change->kind->plan != NULL)
		gm_transactions_give(change, do_plan, planned);
	else
		act(change);
}

static struct gm_change *next(struct gm_changes *changes)
{
	struct gm_change *change, *best = NULL;

	TAILQ_FOREACH(change, &changes->waiting, entry)
	{
		if (change->kind->is_heavy &&
		    (changes->away != NULL ||
		     changes->n_at_worker >= GM_CHANGES_AT_WORKERS))
			continue;
		if (is_prompt(change))
			return change;
		if (best == NULL ||
		    *served(changes, change) < *served(changes, best))
			best = change;
	}
	return best;
}

/* Transactions that need no I/O thread end within begin().  The next one
 * follows from here and not from there, so that the stack does not grow with
 * the queue. */
static void begin_waiting(struct gm_daemon *d)
{
	struct gm_changes *changes = d->changes;

	if (changes->is_beginning)
		return;
	changes->is_beginning = true;
	while (changes->in_hand == NULL) {
		struct gm_change *change = returned(changes);

		if (change != NULL) {
			take_up(changes, change);
			continue;
		}
		change = changes->is_ending || d->loop->stop ? NULL
							     : next(changes);
		if (change == NULL)
			break;
		begin(change);
	}
	changes->is_beginning = false;
}

void gm_transactions_init(struct gm_changes *changes)
{
	*changes = (struct gm_changes){ .in_hand = NULL };
	TAILQ_INIT(&changes->waiting);
	TAILQ_INIT(&changes->at_worker);
	TAILQ_INIT(&changes->postponed);
}

int gm_transactions_add(struct gm_connection *c,
			const struct gm_control *request,
			struct gm_change *change)
{
	struct gm_daemon *d = c->server->d;
	uint64_t waiting = c->user->waiting_bytes;

	if (change->bytes > GM_CHANGES_BYTES - waiting) {
		change->kind->free(change);
		return gm_connection_bad(
			c, -EDQUOT,
			"requests of uid %u that wait for their turn have %llu "
			"bytes: ask again when one of them has been answered",
			(unsigned int)c->uid, (unsigned long long)waiting);
	}
	c->user->waiting_bytes += change->bytes;
	change->d = d;
	change->uid = c->uid;
	change->pid = c->pid;
	change->connection = c;
	c->change = change;
	gm_connection_wait(c, request);
	TAILQ_INSERT_TAIL(&d->changes->waiting, change, entry);
	begin_waiting(d);
	return 0;
}

void gm_transactions_add_own(struct gm_daemon *d, struct gm_change *change)
{
	change->d = d;
	TAILQ_INSERT_TAIL(&d->changes->waiting, change, entry);
	begin_waiting(d);
}

void gm_transactions_connection_dropped(struct gm_connection *c,
					const char *why)
{
	if (c->change)
		gm_transactions_leave(c->change);
}

void gm_transactions_leave(struct gm_change *change)
{
	if (change->connection != NULL)
		part(change);
	change->connection = NULL;
	if (change->d->changes->in_hand == change ||
	    change->d->changes->away == change || change->is_at_worker)
		return;
	if (change->is_postponed)
		TAILQ_REMOVE(&change->d->changes->postponed, change, entry);
	else
		TAILQ_REMOVE(&change->d->changes->waiting, change, entry);
	drop(change);
}

/* A row that is looked for among those of an object. */
struct wanted {
	uint32_t row;
	bool is_found;
};

static void compare_row(uint32_t *row, void *arg)
{
	struct wanted *wanted = arg;

	wanted->is_found |= *row == wanted->row;
}

bool gm_transactions_name(const struct gm_daemon *d, uint32_t row)
{
	const struct gm_change *change = d->changes->in_hand;
	struct wanted wanted = { .row = row };

	if (change != NULL && change->is_put)
		change->object->visit_rows(change->words, compare_row, &wanted);
	return wanted.is_found;
}

bool gm_transactions_drained(const struct gm_daemon *d)
{
	return d->changes->in_hand == NULL && d->changes->away == NULL &&
	       TAILQ_EMPTY(&d->changes->at_worker);
}

int gm_transactions_exit(struct gm_daemon *d, uint64_t until_ns)
{
	struct gm_change *change;
	int ret;

	d->changes->is_ending = true;
	/* The end of the one may need the other, which this thread ends after
	 * it. */
	ret = gm_io_thread_stop(d->heavy_thread, until_ns);
	if (ret == 0)
		ret = gm_io_thread_stop(d->io_thread, until_ns);
	if (ret != 0)
		return ret;
	while ((change = TAILQ_FIRST(&d->changes->at_worker)) != NULL) {
		TAILQ_REMOVE(&d->changes->at_worker, change, entry);
		if (change->connection != NULL)
			part(change);
		drop(change);
	}
	while (!TAILQ_EMPTY(&d->changes->waiting))
		gm_transactions_leave(TAILQ_FIRST(&d->changes->waiting));
	while (!TAILQ_EMPTY(&d->changes->postponed))
		gm_transactions_leave(TAILQ_FIRST(&d->changes->postponed));
	return 0;
}
