/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The line of requests that wait for room, and for whom each of them waits. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/who.h"
#include "agent/reader/list.h"

#define SECOND UINT64_C(1000000000)

/* ---- holders ------------------------------------------------------------- */

uint64_t gm_who_charged(const struct gpumap_charge *charge)
{
	return charge->weight_bytes + charge->kv_bytes +
	       charge->activation_bytes + charge->reserve_bytes;
}

int gm_who_next(const struct gm_ctl *ctl, uint32_t *cursor, struct gm_who *r)
{
	for (;;) {
		struct gpumap_layers head = { .size = sizeof(head) };
		int ret;

		r->holder.size = sizeof(r->holder);
		ret = gpumap_holder_next(ctl->map, cursor, &r->holder);
		if (ret != 1)
			return ret;
		ret = gpumap_layers_read(ctl->map, r->holder.name, &head, NULL,
					 NULL, 0, r->charges, GPUMAP_ROWS_MAX);
		if (ret == -ENOENT ||
		    (ret == 0 && head.version != r->holder.version))
			continue; /* released or replaced by now */
		r->n = head.n_rows;
		return ret == 0 ? 1 : ret;
	}
}

/* ---- the line ------------------------------------------------------------ */

uint32_t gm_who_line_before(const struct gm_who_line *waits, int i)
{
	uint32_t n = 0;

	for (int k = 0; k < i; k++) {
		uint64_t both = 0;

		for (uint32_t w = 0; w < GPUMAP_ROWS_MAX / 64; w++)
			both |= waits->v[k].rows[w] & waits->v[i].rows[w];
		n += both != 0;
	}
	return n;
}

const char *gm_who_line_rows(const struct gpumap_wait_info *wait,
			     char ret_text[GM_WHO_ROWS])
{
	size_t n = 0;

	ret_text[0] = '\0';
	for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++) {
		uint32_t last = row;

		if (!gm_ctl_has_row(wait->rows, row))
			continue;
		while (last + 1 < GPUMAP_ROWS_MAX &&
		       gm_ctl_has_row(wait->rows, last + 1))
			last++;
		n += (size_t)snprintf(ret_text + n, GM_WHO_ROWS - n, "%s%u",
				      n > 0 ? "," : "", row);
		if (last > row && n < GM_WHO_ROWS)
			n += (size_t)snprintf(ret_text + n, GM_WHO_ROWS - n,
					      last > row + 1 ? "-%u" : ",%u",
					      last);
		if (n >= GM_WHO_ROWS - 8)
			break;
		row = last;
	}
	return ret_text;
}

/* ---- for whom ------------------------------------------------------------ */

/* The bytes that a reservation has of the rows that @wait may take. */
static uint64_t has_of(const struct gm_who *who,
		       const struct gpumap_wait_info *wait)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < who->n; i++)
		if (gm_ctl_has_row(wait->rows, who->charges[i].row))
			sum += gm_who_charged(&who->charges[i]);
	return sum;
}

/* Find the reservation that has most of its rows; or, for a request that waits
 * to start, the one in its start window.  Returns its bytes, 0 if there is
 * none. */
static uint64_t find_greatest(const struct gm_ctl *ctl,
			      const struct gpumap_wait_info *wait,
			      struct gpumap_holder *ret_holder)
{
	bool starts = (wait->flags & GPUMAP_WAIT_FOR_START) != 0;
	static __thread struct gm_who who;
	uint32_t cursor = 0;
	uint64_t most = 0;

	while (gm_who_next(ctl, &cursor, &who) == 1) {
		uint64_t bytes = has_of(&who, wait);

		if (bytes <= most || (starts && who.holder.start_ns == 0))
			continue;
		most = bytes;
		*ret_holder = who.holder;
	}
	return most;
}

const char *gm_who_line_reason(const struct gm_ctl *ctl,
			       const struct gm_who_line *waits, int i,
			       char ret_text[GM_WHO_REASON])
{
	const struct gpumap_wait_info *wait = &waits->v[i];
	uint32_t before = gm_who_line_before(waits, i);
	char command[GM_CTL_NAME], pid[32] = "", size[32];
	struct gpumap_holder holder;
	uint64_t bytes = find_greatest(ctl, wait, &holder);
	size_t n = 0;

	ret_text[0] = '\0';
	if (bytes > 0) {
		const char *name =
			gm_ctl_command(ctl, holder.pid, holder.uid, command);

		if (holder.pid != 0)
			snprintf(pid, sizeof(pid), " (pid %u)", holder.pid);
		n = (size_t)snprintf(
			ret_text, GM_WHO_REASON, "%s%s %s%s",
			strcmp(name, "-") != 0 ? name : holder.name, pid,
			(wait->flags & GPUMAP_WAIT_FOR_START) != 0
				? "starts there"
				: "has ",
			(wait->flags & GPUMAP_WAIT_FOR_START) != 0
				? ""
				: gm_size_text(bytes, size));
	}
	if (before > 0 && n < GM_WHO_REASON)
		snprintf(ret_text + n, GM_WHO_REASON - n, "%s%u wait%s before",
			 n > 0 ? ", " : "", before, before == 1 ? "s" : "");
	return ret_text;
}

/* ---- gpumapctl who ------------------------------------------------------- */

/* The names of the reservations on its rows. */
static json_t *holders_json(const struct gm_ctl *ctl,
			    const struct gpumap_wait_info *wait)
{
	static struct gm_who who;
	json_t *list = json_array();
	uint32_t cursor = 0;

	while (gm_who_next(ctl, &cursor, &who) == 1)
		if (has_of(&who, wait) > 0)
			json_array_append_new(list,
					      json_string(who.holder.name));
	return list;
}

static json_t *number_or_null(uint64_t number)
{
	return number != 0 ? json_integer((json_int_t)number) : json_null();
}

static json_t *wait_json(const struct gm_ctl *ctl,
			 const struct gm_who_line *waits, int i)
{
	const struct gpumap_wait_info *wait = &waits->v[i];
	bool is_missing = wait->missing_bytes != 0;
	char line[GM_CTL_LINE];
	json_t *object = json_pack(
		"{s:s, s:I, s:o, s:o, s:o, s:I, s:I, s:b, s:o, s:o, s:o, s:I}",
		"name", wait->name, "uid", (json_int_t)wait->uid, "pid",
		number_or_null(wait->pid), "bytes", number_or_null(wait->bytes),
		"rows", gm_ctl_rows_json(wait->rows), "age_ns",
		(json_int_t)wait->age_ns, "left_ns", (json_int_t)wait->left_ns,
		"for_start", (wait->flags & GPUMAP_WAIT_FOR_START) != 0,
		"missing_bytes", number_or_null(wait->missing_bytes),
		"missing_row",
		is_missing ? json_integer(wait->missing_row) : json_null(),
		"holders", holders_json(ctl, wait), "before",
		(json_int_t)gm_who_line_before(waits, i));

	gm_ctl_name_json(ctl, object, wait->uid, wait->pid);
	gm_ctl_command_line(ctl, wait->pid, wait->uid, line);
	json_object_set_new(object, "command_line",
			    strcmp(line, "-") != 0 ? json_string(line)
						   : json_null());
	return object;
}

static void wait_line(const struct gm_ctl *ctl, const struct gm_who_line *waits,
		      int i)
{
	const struct gpumap_wait_info *wait = &waits->v[i];
	char user[GM_CTL_NAME], line[GM_CTL_LINE], size[32] = "-",
						   pid[16] = "-";
	char rows[GM_WHO_ROWS], reason[GM_WHO_REASON];

	if (wait->pid != 0)
		snprintf(pid, sizeof(pid), "%u", wait->pid);
	printf("%-24s %-12.12s %8s %10s %9.1f  %s  %s  (%s)\n", wait->name,
	       gm_ctl_user(wait->uid, user), pid,
	       wait->bytes != 0 ? gm_size_text(wait->bytes, size) : size,
	       (double)wait->age_ns / (double)SECOND,
	       gm_who_line_rows(wait, rows),
	       gm_ctl_command_line(ctl, wait->pid, wait->uid, line),
	       gm_who_line_reason(ctl, waits, i, reason)[0] != '\0' ? reason
								    : "next");
}

void gm_who_line_show(const struct gm_ctl *ctl, json_t *all)
{
	json_t *list = all != NULL ? json_array() : NULL;
	struct gm_who_line waits = { .v = NULL };

	waits.n = gm_list_wait(ctl->map, &waits.v);
	if (all == NULL && waits.n > 0)
		printf("\n%-24s %-12s %8s %10s %9s  %s  %s\n", "waiting",
		       "user", "pid", "asks for", "for s", "rows",
		       "command line (for whom)");
	for (int i = 0; i < waits.n; i++) {
		if (all != NULL)
			json_array_append_new(list, wait_json(ctl, &waits, i));
		else
			wait_line(ctl, &waits, i);
	}
	free(waits.v);
	if (all == NULL)
		return;
	if (waits.n < 0)
		json_decref(list);
	json_object_set_new(all, "waits", waits.n >= 0 ? list : json_null());
}
