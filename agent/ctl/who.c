/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Show reservations, which committed layer maps hold, and the memory that
 * sessions have. */

#include "agent/ctl/who.h"
#include "agent/reader/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The agent's word on what is in use of them. */
struct in_use {
	struct gpumap_reservation *of; /* NULL: it is not known */
	int n;                         /* negative then */
};

static uint64_t charged_in_all(const struct gm_who *r)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->n; i++)
		sum += gm_who_charged(&r->charges[i]);
	return sum;
}

/* Returns -1 where it is not known. */
static int64_t used_of(const struct in_use *used, const struct gm_who *r,
		       uint32_t row)
{
	for (int i = 0; i < used->n; i++) {
		const struct gpumap_reservation *of = &used->of[i];

		if (of->row == row && of->version == r->holder.version &&
		    strcmp(of->name, r->holder.name) == 0)
			return (int64_t)(of->own_bytes + of->session_bytes);
	}
	return -1;
}

static json_t *to_json(const struct gm_ctl *ctl, const struct in_use *used,
		       const struct gm_who *r)
{
	const struct gpumap_holder *holder = &r->holder;
	json_t *rows = json_array(), *object;
	char line[GM_CTL_LINE];

	for (uint32_t i = 0; i < r->n; i++) {
		uint32_t row = r->charges[i].row;
		int64_t bytes = used_of(used, r, row);

		json_array_append_new(
			rows,
			json_pack("{s:I, s:I, s:o}", "row", (json_int_t)row,
				  "bytes",
				  (json_int_t)gm_who_charged(&r->charges[i]),
				  "used_bytes",
				  bytes >= 0 ? json_integer(bytes)
					     : json_null()));
	}
	object = json_pack("{s:s, s:I, s:I, s:I, s:o, s:I, s:o, s:o}", "name",
			   holder->name, "version", (json_int_t)holder->version,
			   "since_ns", (json_int_t)holder->since_ns, "uid",
			   (json_int_t)holder->uid, "pid",
			   holder->pid != 0
				   ? json_integer((json_int_t)holder->pid)
				   : json_null(),
			   "bytes", (json_int_t)charged_in_all(r), "rows", rows,
			   "start_ns",
			   holder->start_ns != 0
				   ? json_integer((json_int_t)holder->start_ns)
				   : json_null());
	gm_ctl_name_json(ctl, object, holder->uid, holder->pid);
	gm_ctl_command_line(ctl, holder->pid, holder->uid, line);
	json_object_set_new(object, "command_line",
			    strcmp(line, "-") != 0 ? json_string(line)
						   : json_null());
	return object;
}

static void to_line(const struct gm_ctl *ctl, const struct in_use *used,
		    const struct gm_who *r)
{
	char user[GM_CTL_NAME], line[GM_CTL_LINE], size[32], life[16] = "-";
	int64_t in_all = 0;

	for (uint32_t i = 0; i < r->n && in_all >= 0; i++) {
		int64_t bytes = used_of(used, r, r->charges[i].row);

		/* A row of which nothing is reserved is not listed. */
		if (bytes >= 0)
			in_all += bytes;
		else if (gm_who_charged(&r->charges[i]) > 0)
			in_all = -1;
	}
	if (r->holder.pid != 0)
		snprintf(life, sizeof(life), "%u", r->holder.pid);
	printf("%-24s %-12.12s %8s %10s ", r->holder.name,
	       gm_ctl_user(r->holder.uid, user), life,
	       gm_size_text(charged_in_all(r), size));
	printf("%10s ",
	       in_all >= 0 ? gm_size_text((uint64_t)in_all, size) : "-");
	for (uint32_t i = 0; i < r->n; i++)
		printf(" %u:%s", r->charges[i].row,
		       gm_size_text(gm_who_charged(&r->charges[i]), size));
	printf("  %s%s\n",
	       gm_ctl_command_line(ctl, r->holder.pid, r->holder.uid, line),
	       r->holder.start_ns != 0 ? "  (starting)" : "");
}

/* ---- what is in use of them ---------------------------------------------- */

/* Why nothing, or less than there is, counts as in use on a row. */
static void say_why(const struct gm_ctl *ctl)
{
	for (uint32_t row = 0; row < gpumap_device_count(ctl->map); row++) {
		struct gpumap_device device = { .size = sizeof(device) };
		const char *why;

		if (gpumap_device_read(ctl->map, row, &device) != 0 ||
		    device.reserved_bytes == 0)
			continue;
		why = gm_ctl_no_figures(device.figures);
		if (why != NULL)
			printf("row %u: %s: what holders have allocated for "
			       "themselves counts twice\n",
			       row, why);
	}
}

/* ---- memory of sessions ----------------------------------------------- */

static json_t *usage_json(const struct gm_ctl *ctl,
			  const struct gpumap_usage *usage)
{
	bool is_there = usage->session != 0;
	json_t *object = json_pack(
		"{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I}", "session",
		is_there ? json_integer((json_int_t)usage->session)
			 : json_null(),
		"pid",
		is_there ? json_integer((json_int_t)usage->pid) : json_null(),
		"uid", (json_int_t)usage->uid, "row", (json_int_t)usage->row,
		"bytes", (json_int_t)usage->bytes, "lent_bytes",
		(json_int_t)usage->lent_bytes, "borrowed_bytes",
		(json_int_t)usage->borrowed_bytes, "importers",
		(json_int_t)usage->importers);

	gm_ctl_name_json(ctl, object, usage->uid, usage->pid);
	return object;
}

static void usage_line(const struct gm_ctl *ctl,
		       const struct gpumap_usage *usage)
{
	char user[GM_CTL_NAME], command[GM_CTL_NAME];
	char session[32] = "-", pid[16] = "-", size[3][32];

	if (usage->session != 0) {
		snprintf(session, sizeof(session), "%llu",
			 (unsigned long long)usage->session);
		snprintf(pid, sizeof(pid), "%u", usage->pid);
	}
	printf("%8s %8s %-15s %-12.12s %4u %10s %10s %10s %9u\n", session, pid,
	       gm_ctl_command(ctl, usage->pid, usage->uid, command),
	       gm_ctl_user(usage->uid, user), usage->row,
	       gm_size_text(usage->bytes, size[0]),
	       gm_size_text(usage->lent_bytes, size[1]),
	       gm_size_text(usage->borrowed_bytes, size[2]), usage->importers);
}

static int show_usage(const struct gm_ctl *ctl, json_t *all)
{
	json_t *list = all != NULL ? json_array() : NULL;
	struct gpumap_usage *usage;
	int n = gm_list_usage(ctl->map, &usage);

	if (n < 0) {
		json_decref(list);
		return n;
	}
	if (all == NULL)
		printf("\n%8s %8s %-15s %-12s %4s %10s %10s %10s %9s\n",
		       "session", "pid", "command", "user", "row", "has",
		       "lent", "borrowed", "importers");
	for (int i = 0; i < n; i++) {
		if (all != NULL)
			json_array_append_new(list, usage_json(ctl, &usage[i]));
		else
			usage_line(ctl, &usage[i]);
	}
	free(usage);
	if (all != NULL)
		json_object_set_new(all, "usage", list);
	return 0;
}

/* ---- all of it --------------------------------------------------------- */

static int show_reservations(const struct gm_ctl *ctl,
			     const struct in_use *used, json_t *all)
{
	json_t *list = all != NULL ? json_array() : NULL;
	struct gm_who r;
	uint32_t cursor = 0;
	int ret;

	if (all == NULL)
		printf("%-24s %-12s %8s %10s %10s  %s  %s\n", "name", "user",
		       "pid", "reserved", "in use", "of rows", "command line");
	while ((ret = gm_who_next(ctl, &cursor, &r)) == 1) {
		if (all != NULL)
			json_array_append_new(list, to_json(ctl, used, &r));
		else
			to_line(ctl, used, &r);
	}
	if (all != NULL)
		json_object_set_new(all, "reservations", list);
	else if (used->of != NULL)
		say_why(ctl);
	return ret;
}

int gm_ctl_who(struct gm_ctl *ctl)
{
	json_t *all = ctl->json ? json_object() : NULL;
	struct in_use used = { .of = NULL };
	int status, ret;

	/* Reading the map needs no permission of the agent; this does. */
	used.n = gm_list_reservation(ctl->map, &used.of);
	ret = show_reservations(ctl, &used, all);
	free(used.of);
	if (ret != 0) {
		json_decref(all);
		return gm_ctl_fail(ctl, ret, "reservations");
	}
	gm_who_line_show(ctl, all);
	ret = show_usage(ctl, all);
	if (ret != 0 && all != NULL)
		json_object_set_new(all, "usage", json_null());
	status = ctl->json ? gm_ctl_print(all) : GM_EXIT_OK;
	if (ret == 0 || status != GM_EXIT_OK)
		return status;
	fflush(stdout);
	return gm_ctl_fail(ctl, ret, "the memory of sessions is not listed");
}
