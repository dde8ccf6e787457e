/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/memory/buffers.h"

#include <errno.h>
#include <stdlib.h>

#define PLACES (GM_BUFFERS_MAX + GM_ROWS)

void gm_buffers_init(struct gm_buffer_table *buffers)
{
	*buffers = (struct gm_buffer_table){ .used = 0 };
	STAILQ_INIT(&buffers->given_up);
}

/* ---- budgets ----------------------------------------------------------- */

int gm_buffers_open_budget(struct gm_buffer_table *buffers,
			   struct gm_user_budget **budgets, uint32_t uid,
			   uint64_t quota)
{
	struct gm_user_budget *budget = *budgets;

	while (budget && budget->uid != uid)
		budget = budget->next;
	if (!budget) {
		budget = calloc(1, sizeof(*budget));
		if (!budget)
			return -ENOMEM;
		budget->uid = uid;
		gm_blocking_queue_init(&budget->blocking);
		budget->next = *budgets;
		*budgets = budget;
	}
	budget->n_sessions++;
	budget->quota = quota;
	buffers->budget = budget;
	return 0;
}

void gm_buffers_leave(struct gm_buffer_table *buffers)
{
	if (!buffers->budget || buffers->leaves)
		return;
	buffers->leaves = true;
	buffers->budget->n_leaving++;
}

void gm_buffers_close_budget(struct gm_buffer_table *buffers,
			     struct gm_user_budget **budgets)
{
	struct gm_user_budget *budget = buffers->budget;

	if (!budget)
		return;
	budget->used -= buffers->used;
	buffers->used = 0;
	buffers->budget = NULL;
	if (buffers->leaves)
		budget->n_leaving--;
	if (--budget->n_sessions)
		return;
	while (*budgets != budget)
		budgets = &(*budgets)->next;
	*budgets = budget->next;
	free(budget);
}

static void count(struct gm_buffer_table *buffers, uint64_t more, uint64_t less)
{
	buffers->used += more - less;
	buffers->budget->used += more - less;
	if (buffers->shown)
		gm_put(buffers->shown, buffers->used);
}

int gm_buffers_pay(struct gm_buffer_table *buffers, uint64_t bytes)
{
	const struct gm_user_budget *budget = buffers->budget;

	if (!budget || budget->used > budget->quota ||
	    bytes > budget->quota - budget->used)
		return -EDQUOT;
	count(buffers, bytes, 0);
	return 0;
}

int gm_buffers_settle(struct gm_buffer_table *buffers, uint64_t paid,
		      uint64_t charged)
{
	count(buffers, charged, paid);
	return buffers->budget->used > buffers->budget->quota ? -EDQUOT : 0;
}

/* ---- the table --------------------------------------------------------- */

static bool have_table(struct gm_buffer_table *buffers)
{
	if (!buffers->slot)
		buffers->slot =
			calloc(PLACES, sizeof(struct gm_buffer_entry *));
	return buffers->slot;
}

int gm_buffers_add(struct gm_buffer_table *buffers, uint64_t handle,
		   struct gm_buffer_entry **ret_slot)
{
	uint32_t index = gm_handle_index(handle);
	struct gm_buffer_entry *slot;

	if (gm_handle_generation(handle) == 0 || index >= GM_BUFFERS_MAX)
		return -EINVAL;
	if (!have_table(buffers))
		return -ENOMEM;
	if (buffers->slot[index])
		return -EEXIST;
	slot = calloc(1, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	slot->handle = handle;
	slot->fd = -1;
	buffers->slot[index] = slot;
	*ret_slot = slot;
	return 0;
}

static void keep_until(struct gm_buffer_table *buffers,
		       struct gm_buffer_entry *slot, uint32_t after)
{
	slot->ready = false;
	slot->after = after;
	STAILQ_INSERT_TAIL(&buffers->given_up, slot, entry);
}

int gm_buffers_add_stage(struct gm_buffer_table *buffers, uint32_t row,
			 uint64_t id, uint32_t after,
			 struct gm_buffer_entry **ret_slot)
{
	struct gm_buffer_entry *slot, *before;

	if (row >= GM_ROWS)
		return -EINVAL;
	slot = have_table(buffers) ? calloc(1, sizeof(*slot)) : NULL;
	if (!slot)
		return -ENOMEM;
	before = gm_buffers_stage(buffers, row);
	if (before)
		keep_until(buffers, before, after);
	slot->handle = id;
	slot->fd = -1;
	buffers->slot[GM_BUFFERS_MAX + row] = slot;
	*ret_slot = slot;
	return 0;
}

void gm_buffers_remove(struct gm_buffer_table *buffers,
		       struct gm_buffer_entry *slot)
{
	buffers->slot[gm_handle_index(slot->handle)] = NULL;
}

void gm_buffers_give_up(struct gm_buffer_table *buffers,
			struct gm_buffer_entry *slot, uint32_t after)
{
	gm_buffers_remove(buffers, slot);
	keep_until(buffers, slot, after);
}

void gm_buffers_free(struct gm_buffer_table *buffers, uint64_t handle,
		     uint32_t at)
{
	struct gm_buffer_entry *slot = gm_buffers_find(buffers, handle);

	count(buffers, 0, slot->buffer->charged);
	gm_buffers_give_up(buffers, slot, at);
}

struct gm_buffer_entry *
gm_buffers_next_given_up(struct gm_buffer_table *buffers, uint32_t now)
{
	struct gm_buffer_entry *slot = STAILQ_FIRST(&buffers->given_up);

	/* The list is in the order of giving up, and thus of positions. */
	if (!slot || (int32_t)(now - slot->after) < 0)
		return NULL;
	STAILQ_REMOVE_HEAD(&buffers->given_up, entry);
	return slot;
}

void gm_buffers_take_all(struct gm_buffer_table *buffers,
			 struct gm_slots *ret_all)
{
	STAILQ_INIT(ret_all);
	STAILQ_CONCAT(ret_all, &buffers->given_up);
	for (uint32_t i = 0; buffers->slot && i < PLACES; i++)
		if (buffers->slot[i])
			STAILQ_INSERT_TAIL(ret_all, buffers->slot[i], entry);
	free(buffers->slot);
	buffers->slot = NULL;
}
