/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show reservations, which committed layer maps hold; the line of requests that
 * wait for room, and for whom each of them waits; and the memory that sessions
 * have. */

#include "agent/ctl/fields.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/reader/list.h"

/* ---- holders ------------------------------------------------------------- */

/* The bytes that a reservation takes of a row. */
struct reserved {
	uint32_t row;
	uint64_t bytes;
	int64_t used; /* of these, by the agent's word; -1: not known */
};

struct holder {
	struct gpumap_holder of;
	struct reserved rows[GPUMAP_ROWS_MAX];
	uint32_t n;
	uint64_t bytes; /* of all rows */
	int64_t used;
};

/* Returns 1, 0 after the last, or a negative errno. */
static int next_holder(const struct gm_ctl *ctl, uint32_t *cursor,
		       struct holder *h)
{
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];

	for (;;) {
		struct gpumap_layers head = { .size = sizeof(head) };
		int ret;

		*h = (struct holder){ .of.size = sizeof(h->of) };
		ret = gpumap_holder_next(ctl->map, cursor, &h->of);
		if (ret != 1)
			return ret;
		ret = gpumap_layers_read(ctl->map, h->of.name, &head, NULL,
					 NULL, 0, charges, GPUMAP_ROWS_MAX);
		if (ret == -ENOENT ||
		    (ret == 0 && head.version != h->of.version))
			continue; /* released or replaced by now */
		if (ret != 0)
			return ret;
		for (h->n = 0; h->n < head.n_rows; h->n++) {
			h->rows[h->n] = (struct reserved){
				charges[h->n].row,
				gm_ctl_charged(&charges[h->n]), -1
			};
			h->bytes += h->rows[h->n].bytes;
		}
		return 1;
	}
}

/* Take of @all, @n of them, what is in use of the rows of a holder. */
static void take_used(const struct gpumap_reservation *all, int n,
		      struct holder *h)
{
	for (uint32_t i = 0; i < h->n; i++) {
		struct reserved *r = &h->rows[i];

		for (int k = 0; k < n; k++)
			if (all[k].row == r->row &&
			    all[k].version == h->of.version &&
			    strcmp(all[k].name, h->of.name) == 0)
				r->used = (int64_t)(all[k].own_bytes +
						    all[k].session_bytes);
		/* A row of which nothing is reserved is not listed. */
		if (r->used < 0 && r->bytes > 0)
			h->used = -1;
		else if (r->used > 0 && h->used >= 0)
			h->used += r->used;
	}
}

static const struct gm_ctl_field reserved_fields[] = {
	GM_MEMBERS(reserved, row, bytes),
	GM_FIELD(reserved, "used_bytes", used, .as = GM_AS_OR_NULL),
	{ 0 },
};

static void rows_text(const struct gm_ctl *ctl, const void *holder,
		      char ret_text[GM_CTL_CELL])
{
	const struct holder *h = holder;
	char size[GM_SIZE_TEXT];
	size_t n = 0;

	for (uint32_t i = 0; i < h->n && n < GM_CTL_CELL; i++)
		n += (size_t)snprintf(ret_text + n, GM_CTL_CELL - n, "%s%u:%s",
				      i > 0 ? " " : "", h->rows[i].row,
				      gm_size_text(h->rows[i].bytes, size));
}

static void holder_line(const struct gm_ctl *ctl, const void *holder,
			char ret_text[GM_CTL_CELL])
{
	const struct holder *h = holder;
	char line[GM_CTL_LINE];

	snprintf(ret_text, GM_CTL_CELL, "%s%s",
		 gm_ctl_command_line(ctl, h->of.pid, h->of.uid, line),
		 h->of.start_ns != 0 ? "  (starting)" : "");
}

static const struct gm_ctl_field holder_fields[] = {
	GM_FIELD(holder, "name", of.name, GM_COLUMN("name", -24)),
	GM_FIELD(holder, "version", of.version),
	GM_FIELD(holder, "since_ns", of.since_ns),
	GM_FIELD(holder, "uid", of.uid),
	GM_FIELD_USER(holder, NULL, of.uid, GM_COLUMN("user", -12)),
	GM_FIELD(holder, "pid", of.pid, GM_COLUMN("pid", 8),
		 .as = GM_AS_OR_NULL),
	GM_FIELD(holder, "bytes", bytes, GM_COLUMN("reserved", 10),
		 .as = GM_AS_SIZE),
	GM_FIELD(holder, NULL, used, GM_COLUMN("in use", 10),
		 .as = GM_AS_SIZE | GM_AS_OR_NULL),
	GM_FIELD_LIST(holder, "rows", rows, n, .fields = reserved_fields,
		      GM_COLUMN(" of rows", 0), .text = rows_text),
	GM_FIELD(holder, "start_ns", of.start_ns, .as = GM_AS_OR_NULL),
	GM_FIELD_USER(holder, "user", of.uid),
	GM_FIELD_COMMAND(holder, "command", of.uid, of.pid),
	GM_FIELD_COMMAND_LINE(holder, "command_line", of.uid, of.pid),
	GM_FIELD(holder, NULL, of.pid, GM_COLUMN(" command line", 0),
		 .text = holder_line),
	{ 0 },
};

static json_t *show_holders(const struct gm_ctl *ctl)
{
	struct gpumap_reservation *used = NULL;
	/* Reading the map needs no permission of the agent; this does. */
	int n = gm_list_reservation(ctl->map, &used), ret;
	struct gm_ctl_list list = gm_ctl_list_begin(ctl, holder_fields);
	struct gpumap_device device;
	struct holder h;
	uint32_t cursor = 0, row = 0;

	while ((ret = next_holder(ctl, &cursor, &h)) == 1) {
		take_used(used, n, &h);
		gm_ctl_list_add(&list, &h);
	}
	/* Why nothing, or less than there is, counts as in use on a row. */
	while (!ctl->json && used != NULL &&
	       gm_ctl_next_device(ctl->map, &row, &device)) {
		const char *why = gm_ctl_no_figures(device.figures);

		if (device.reserved_bytes != 0 && why != NULL)
			printf("row %u: %s: what holders have allocated for "
			       "themselves counts twice\n",
			       device.row, why);
	}
	free(used);
	if (ret != 0)
		gm_ctl_fail(ctl, ret, "reservations");
	return list.items;
}

/* ---- the line ------------------------------------------------------------ */

const char *gm_ctl_line_rows(const struct gpumap_wait_info *wait,
			     char ret_text[GM_CTL_WAIT_ROWS])
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
		n += (size_t)snprintf(ret_text + n, GM_CTL_WAIT_ROWS - n,
				      "%s%u", n > 0 ? "," : "", row);
		if (last > row && n < GM_CTL_WAIT_ROWS)
			n += (size_t)snprintf(ret_text + n,
					      GM_CTL_WAIT_ROWS - n,
					      last > row + 1 ? "-%u" : ",%u",
					      last);
		if (n >= GM_CTL_WAIT_ROWS - 8)
			break;
		row = last;
	}
	return ret_text;
}

/* ---- for whom ------------------------------------------------------------ */

/* The bytes that a reservation has of the rows that @wait may take. */
static uint64_t has_of(const struct holder *h,
		       const struct gpumap_wait_info *wait)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < h->n; i++)
		if (gm_ctl_has_row(wait->rows, h->rows[i].row))
			sum += h->rows[i].bytes;
	return sum;
}

const char *gm_ctl_line_reason(const struct gm_ctl *ctl,
			       const struct gpumap_wait_info *wait,
			       char ret_text[GM_CTL_WAIT_REASON])
{
	bool starts = (wait->flags & GPUMAP_WAIT_FOR_START) != 0;
	uint32_t cursor = 0, n_before = wait->n_before;
	char command[GM_CTL_NAME], pid[32] = "", size[32];
	struct gpumap_holder found = { .pid = 0 };
	uint64_t most = 0;
	struct holder h;
	size_t n = 0;

	while (next_holder(ctl, &cursor, &h) == 1) {
		uint64_t bytes = has_of(&h, wait);

		if (bytes <= most || (starts && h.of.start_ns == 0))
			continue;
		most = bytes;
		found = h.of;
	}
	ret_text[0] = '\0';
	if (most > 0) {
		const char *name =
			gm_ctl_command(ctl, found.pid, found.uid, command);

		if (found.pid != 0)
			snprintf(pid, sizeof(pid), " (pid %u)", found.pid);
		n = (size_t)snprintf(ret_text, GM_CTL_WAIT_REASON, "%s%s %s%s",
				     strcmp(name, "-") != 0 ? name : found.name,
				     pid, starts ? "starts there" : "has ",
				     starts ? "" : gm_size_text(most, size));
	}
	if (n_before > 0 && n < GM_CTL_WAIT_REASON)
		snprintf(ret_text + n, GM_CTL_WAIT_REASON - n,
			 "%s%u wait%s before", n > 0 ? ", " : "", n_before,
			 n_before == 1 ? "s" : "");
	return ret_text;
}

/* ---- what is shown of the line ------------------------------------------- */

struct waiting {
	struct gpumap_wait_info of;
	char rows[GM_CTL_WAIT_ROWS];
	char whom[GM_CTL_LINE + GM_CTL_WAIT_REASON + 8]; /* and what it runs */
};

/* The names of the reservations on its rows. */
static json_t *holders_json(const struct gm_ctl *ctl, const void *waiting)
{
	const struct waiting *w = waiting;
	json_t *names = json_array();
	uint32_t cursor = 0;
	struct holder h;

	while (next_holder(ctl, &cursor, &h) == 1)
		if (has_of(&h, &w->of) > 0)
			json_array_append_new(names, json_string(h.of.name));
	return names;
}

static const struct gm_ctl_field wait_fields[] = {
	GM_FIELD(waiting, "name", of.name, GM_COLUMN("waiting", -24)),
	GM_FIELD(waiting, "uid", of.uid),
	GM_FIELD_USER(waiting, NULL, of.uid, GM_COLUMN("user", -12)),
	GM_FIELD(waiting, "pid", of.pid, GM_COLUMN("pid", 8),
		 .as = GM_AS_OR_NULL),
	GM_FIELD(waiting, "bytes", of.bytes, GM_COLUMN("asks for", 10),
		 .as = GM_AS_SIZE | GM_AS_OR_NULL),
	GM_FIELD(waiting, "rows", of.rows),
	GM_FIELD(waiting, "age_ns", of.age_ns, GM_COLUMN("for s", 9),
		 .as = GM_AS_SECONDS),
	GM_FIELD(waiting, NULL, rows, GM_COLUMN(" rows", 0)),
	GM_FIELD(waiting, NULL, whom, GM_COLUMN(" command line (for whom)", 0)),
	GM_FIELD(waiting, "left_ns", of.left_ns),
	GM_FIELD(waiting, "for_start", of.flags, GM_SET(GPUMAP_WAIT_FOR_START)),
	GM_FIELD(waiting, "missing_bytes", of.missing_bytes,
		 .as = GM_AS_OR_NULL),
	GM_FIELD_IF(waiting, "missing_row", of.missing_row, of.missing_bytes),
	GM_FIELD(waiting, "holders", of.rows, .json = holders_json),
	GM_FIELD(waiting, "before", of.n_before),
	GM_FIELD_USER(waiting, "user", of.uid),
	GM_FIELD_COMMAND(waiting, "command", of.uid, of.pid),
	GM_FIELD_COMMAND_LINE(waiting, "command_line", of.uid, of.pid),
	{ 0 },
};

/* Returns the array, or null where the agent does not say. */
static json_t *show_line(const struct gm_ctl *ctl)
{
	struct gpumap_wait_info *waits = NULL;
	struct gm_ctl_list list = { .items = NULL };
	int n = gm_list_wait(ctl->map, &waits);

	if (!ctl->json && n > 0)
		putchar('\n');
	if (n > 0 || (ctl->json && n == 0))
		list = gm_ctl_list_begin(ctl, wait_fields);
	for (int i = 0; i < n; i++) {
		struct waiting w = { waits[i], "", "" };
		char line[GM_CTL_LINE], reason[GM_CTL_WAIT_REASON];

		gm_ctl_line_rows(&w.of, w.rows);
		gm_ctl_line_reason(ctl, &w.of, reason);
		snprintf(w.whom, sizeof(w.whom), "%s  (%s)",
			 gm_ctl_command_line(ctl, w.of.pid, w.of.uid, line),
			 reason[0] != '\0' ? reason : "next");
		gm_ctl_list_add(&list, &w);
	}
	free(waits);
	return list.items != NULL ? list.items : json_null();
}

/* ---- memory of sessions -------------------------------------------------- */

#define USAGE(name, member, ...) \
	GM_FIELD(gpumap_usage, name, member, __VA_ARGS__)
#define USAGE_OF(name, member, heading, width) \
	USAGE(name, member, GM_COLUMN(heading, width), .as = GM_AS_SIZE)

static const struct gm_ctl_field usage_fields[] = {
	USAGE("session", session, GM_COLUMN("session", 8), .as = GM_AS_OR_NULL),
	USAGE("pid", pid, GM_COLUMN("pid", 8), .as = GM_AS_OR_NULL),
	GM_FIELD_COMMAND(gpumap_usage, NULL, uid, pid,
			 GM_COLUMN("command", -15)),
	USAGE("uid", uid),
	GM_FIELD_USER(gpumap_usage, NULL, uid, GM_COLUMN("user", -12)),
	USAGE("row", row, GM_COLUMN("row", 4)),
	USAGE_OF("bytes", bytes, "has", 10),
	USAGE_OF("lent_bytes", lent_bytes, "lent", 10),
	USAGE_OF("borrowed_bytes", borrowed_bytes, "borrowed", 10),
	USAGE("importers", importers, GM_COLUMN("importers", 9)),
	GM_FIELD_USER(gpumap_usage, "user", uid),
	GM_FIELD_COMMAND(gpumap_usage, "command", uid, pid),
	{ 0 },
};

/* ---- all of it ----------------------------------------------------------- */

void gm_ctl_wait_drop(struct gm_ctl *ctl)
{
	int ret = gpumap_wait_drop(ctl->map, ctl->args[0]);

	if (ret != 0)
		gm_ctl_fail(ctl, ret, "drop \"%s\"", ctl->args[0]);
	gm_ctl_done(ctl, "dropped");
}

void gm_ctl_who(struct gm_ctl *ctl)
{
	json_t *holders = show_holders(ctl), *waits = show_line(ctl);
	struct gm_ctl_list list = { .items = NULL };
	struct gpumap_usage *usage = NULL;
	int n = gm_list_usage(ctl->map, &usage);

	if (!ctl->json && n >= 0)
		putchar('\n');
	if (n >= 0)
		list = gm_ctl_list_begin(ctl, usage_fields);
	for (int i = 0; i < n; i++)
		gm_ctl_list_add(&list, &usage[i]);
	free(usage);
	if (ctl->json)
		gm_ctl_print(json_pack("{s:o, s:o, s:o}", "reservations",
				       holders, "waits", waits, "usage",
				       list.items != NULL ? list.items
							  : json_null()));
	if (n >= 0)
		return;
	fflush(stdout);
	gm_ctl_fail(ctl, n, "the memory of sessions is not listed");
}
