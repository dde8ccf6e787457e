/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/account/credit.h"

#include <stdbool.h>
#include <stdlib.h>

#include "agent/common/node_clock.h"
#include "agent/daemon/account/ledger.h"
#include "agent/daemon/account/usage.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/devices/rows.h"
#include "gpumap.h"

/* ---- who is bound -------------------------------------------------------- */

void gm_credit_bind(struct gm_daemon *d, uint32_t place, uint32_t slot,
		    const struct gm_lineage_member *process)
{
	struct gm_credits *credits = d->credits;

	credits->bound[credits->n_bound++] =
		(struct gm_credit_bound){ place, slot, gm_node_clock_now(),
					  *process };
}

void gm_credit_unbind(struct gm_daemon *d, uint32_t place)
{
	struct gm_credits *credits = d->credits;
	uint32_t i = 0, slot;

	while (i < credits->n_bound && credits->bound[i].place != place)
		i++;
	if (i == credits->n_bound)
		return;
	slot = credits->bound[i].slot;
	credits->bound[i] = credits->bound[--credits->n_bound];
	gm_credit_recount_slot(d, slot);
}

/* ---- looks --------------------------------------------------------------- */

/* NULL for want of memory: then nothing is credited. */
static struct gm_credit_look *heard_of(struct gm_daemon *d, uint32_t row)
{
	struct gm_credits *credits = d->credits;

	if (credits->heard[row] == NULL)
		credits->heard[row] = calloc(1, sizeof(*credits->heard[row]));
	return credits->heard[row];
}

/* A process that comes out of turn leaves the look incomplete. */
void gm_credit_process(struct gm_daemon *d, uint32_t row,
		       const struct gm_probe_process *process)
{
	struct gm_credit_look *look = heard_of(d, row);

	if (look == NULL)
		return;
	if (process->index == 0)
		look->n = 0;
	if (process->index != look->n || look->n == GM_PROBE_PROCESSES)
		return;
	look->of[look->n] = *process;
	if (process->n > GM_PROBE_LINE)
		look->of[look->n].n = 0;
	look->n++;
}

void gm_credit_look(struct gm_daemon *d, uint32_t row,
		    const struct gm_probe_moving *moving)
{
	struct gm_credits *credits = d->credits;
	struct gm_credit_look *look = heard_of(d, row);

	d->devices->of[row]->moving.figures = moving->figures;
	if (look == NULL) {
		if (credits->looks[row] != NULL)
			credits->looks[row]->n = 0;
		return;
	}
	/* The look began before the card had a row. */
	if (look->n != moving->n_processes &&
	    moving->figures == GM_FIGURES_KNOWN)
		d->devices->of[row]->moving.figures = GM_FIGURES_PARTLY;
	if (look->n != moving->n_processes ||
	    (moving->figures != GM_FIGURES_KNOWN &&
	     moving->figures != GM_FIGURES_PARTLY))
		look->n = 0;
	look->looked_ns = moving->looked_ns;
	look->used_bytes = moving->used_bytes;
	credits->heard[row] = credits->looks[row];
	credits->looks[row] = look;
	if (credits->heard[row] != NULL)
		credits->heard[row]->n = 0;
}

/* ---- counting ------------------------------------------------------------ */

/* One process that is bound to reservations of the row. */
struct pot {
	const struct gm_lineage_member *process;
	uint64_t since_ns;  /* the earliest of its bindings */
	uint64_t low_bytes; /* that its line has for itself */
	uint64_t high_bytes;
	uint64_t session_bytes;
};

#define POT_PLACES (2 * GM_HOLDERS)

struct count {
	struct gm_daemon *d;
	uint32_t row;
	uint64_t most_bytes; /* that all lines may be credited with */
	uint32_t n_pots;
	struct pot pots[GM_HOLDERS];
	uint16_t at[POT_PLACES]; /* one more than a pot's index, by pids */
};

/* Where the index of a process's pot is, or 0 for none.  Those that are bound
 * run, so that each has a pid of its own. */
static uint16_t *find_place(struct count *count,
			    const struct gm_lineage_member *process)
{
	for (uint32_t i = process->pid % POT_PLACES;;
	     i = (i + 1) % POT_PLACES) {
		const struct gm_lineage_member *other =
			count->at[i] != 0
				? count->pots[count->at[i] - 1].process
				: NULL;

		if (other == NULL || other->pid == process->pid)
			return &count->at[i];
	}
}

static struct pot *find(struct count *count,
			const struct gm_lineage_member *process)
{
	uint16_t n = *find_place(count, process);

	return n != 0 ? &count->pots[n - 1] : NULL;
}

/* Figures of a look that began before the reservation do not count. */
static bool is_younger(const struct count *count, uint32_t slot)
{
	const struct gm_daemon *d = count->d;
	const struct gm_credit_look *look = d->credits->looks[count->row];

	return look != NULL && look->looked_ns >= d->ledger->of[slot]->since_ns;
}

static void list_pots(struct count *count)
{
	const struct gm_daemon *d = count->d;

	for (uint32_t i = 0; i < d->credits->n_bound; i++) {
		const struct gm_credit_bound *bound = &d->credits->bound[i];
		uint16_t *place;

		if (gm_ledger_promise(d, bound->slot, count->row) == NULL)
			continue;
		place = find_place(count, &bound->process);
		if (*place != 0) {
			struct pot *pot = &count->pots[*place - 1];

			if (bound->since_ns < pot->since_ns)
				pot->since_ns = bound->since_ns;
			continue;
		}
		count->pots[count->n_pots] = (struct pot){
			.process = &bound->process,
			.since_ns = bound->since_ns,
			.session_bytes = gm_usage_of_process(
				d, count->row, (pid_t)bound->process.pid),
		};
		*place = (uint16_t)++count->n_pots;
	}
}

/* The nearest in the line; NULL: the process is a stranger.  Another process
 * that has a bound one's pid later began later; a look that began before the
 * process was bound does not tell which of two had the pid. */
static struct pot *pot_of(struct count *count,
			  const struct gm_probe_process *process)
{
	uint64_t looked_ns = count->d->credits->looks[count->row]->looked_ns;

	for (uint32_t i = 0; i < process->n; i++) {
		struct pot *pot = find(count, &process->line[i]);

		if (pot != NULL &&
		    process->line[i].start <= pot->process->start)
			return looked_ns >= pot->since_ns ? pot : NULL;
	}
	return NULL;
}

static void clear(const struct gm_daemon *d, uint32_t row)
{
	for (uint32_t slot = 0; slot < GM_OBJECTS; slot++) {
		struct gm_promise *promise = gm_ledger_promise(d, slot, row);

		if (promise != NULL)
			promise->own_bytes = promise->session_bytes = 0;
	}
}

/* Take what there is and what is wanted, and not more than @most. */
static uint64_t take(uint64_t *pot, uint64_t *most, uint64_t want)
{
	uint64_t bytes = *pot < want ? *pot : want;

	if (bytes > *most)
		bytes = *most;
	*pot -= bytes;
	*most -= bytes;
	return bytes;
}

static uint64_t left_of(const struct gm_promise *promise)
{
	return promise->bytes - promise->own_bytes - promise->session_bytes;
}

/* Bytes that bound processes have, at most, beyond their reservations: any of
 * them may have been the ones that used the row at the reading. */
static uint64_t beyond(struct count *count)
{
	struct gm_daemon *d = count->d;
	uint64_t sum = 0, any = UINT64_MAX;

	for (uint32_t i = 0; i < d->credits->n_bound; i++) {
		const struct gm_credit_bound *bound = &d->credits->bound[i];
		struct gm_promise *promise =
			gm_ledger_promise(d, bound->slot, count->row);

		if (promise != NULL && is_younger(count, bound->slot))
			promise->own_bytes +=
				take(&find(count, &bound->process)->high_bytes,
				     &any, left_of(promise));
	}
	for (uint32_t i = 0; i < count->n_pots; i++)
		sum += count->pots[i].high_bytes;
	clear(d, count->row);
	return sum;
}

static void fill_pots(struct count *count)
{
	const struct gm_credit_look *look =
		count->d->credits->looks[count->row];
	uint64_t strange = 0;

	if (look == NULL)
		return;
	for (uint32_t i = 0; i < look->n; i++) {
		struct pot *pot = pot_of(count, &look->of[i]);

		if (pot == NULL) {
			strange += look->of[i].high_bytes;
			continue;
		}
		pot->low_bytes += look->of[i].low_bytes;
		pot->high_bytes += look->of[i].high_bytes;
	}
	strange += beyond(count);
	if (look->used_bytes > strange)
		count->most_bytes = look->used_bytes - strange;
}

static void credit(struct count *count, const struct gm_credit_bound *bound)
{
	struct gm_daemon *d = count->d;
	struct gm_promise *promise =
		gm_ledger_promise(d, bound->slot, count->row);
	struct pot *pot = find(count, &bound->process);
	uint64_t any = UINT64_MAX;

	if (promise == NULL)
		return;
	if (is_younger(count, bound->slot))
		promise->own_bytes += take(&pot->low_bytes, &count->most_bytes,
					   left_of(promise));
	if (d->credits->noted_ns[count->row] >=
	    d->ledger->of[bound->slot]->since_ns)
		promise->session_bytes +=
			take(&pot->session_bytes, &any, left_of(promise));
}

void gm_credit_recount(struct gm_daemon *d, uint32_t row)
{
	struct count count = { .d = d, .row = row };

	if (d->credits->n_bound == 0 && d->ledger->used[row] == 0)
		return;
	clear(d, row);
	list_pots(&count);
	fill_pots(&count);
	for (uint32_t i = 0; i < d->credits->n_bound; i++)
		credit(&count, &d->credits->bound[i]);
	gm_ledger_recounted(d, row);
}

void gm_credit_recount_slot(struct gm_daemon *d, uint32_t slot)
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		if (gm_ledger_promise(d, slot, row) != NULL)
			gm_credit_recount(d, row);
	}
}

/* One reservation less leaves less that all may be credited with. */
void gm_credit_slot_stored(struct gm_daemon *d)
{
	for (uint32_t row = 0; row < d->devices->n; row++) {
		if (!d->ledger->has_changed[row])
			continue;
		d->ledger->has_changed[row] = false;
		gm_credit_recount(d, row);
	}
}

void gm_credit_row_read(struct gm_daemon *d, uint32_t row)
{
	bool is_now;

	if (row >= d->devices->n)
		return;
	is_now = !gm_device_is_watched(d->devices->of[row]);
	gm_usage_noted(d, row, is_now);
	d->credits->noted_ns[row] = gm_node_clock_now();
	gm_credit_recount(d, row);
}

void gm_credit_forget(struct gm_daemon *d, uint32_t row)
{
	free(d->credits->looks[row]);
	free(d->credits->heard[row]);
	d->credits->looks[row] = d->credits->heard[row] = NULL;
}

void gm_credit_exit(struct gm_daemon *d)
{
	for (uint32_t row = 0; row < GM_ROWS; row++)
		gm_credit_forget(d, row);
	d->credits->n_bound = 0;
}
