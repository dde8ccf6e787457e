/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Take rows out of service and back, and list what that would end. */

#include <stdio.h>
#include <stdlib.h>

#include "agent/ctl/fields.h"
#include "agent/ctl/parse.h"
#include "agent/ctl/progress.h"
#include "agent/reader/list.h"

/* ---- a dry run ----------------------------------------------------------- */

static const struct gm_ctl_field session_fields[] = {
	GM_MEMBERS(gpumap_session_info, id, pid, uid),
	GM_FIELD_USER(gpumap_session_info, "user", uid),
	GM_FIELD_COMMAND(gpumap_session_info, "command", uid, pid),
	{ 0 },
};

static const struct gm_ctl_field share_fields[] = {
	GM_MEMBERS(gpumap_share_info, name, uid, bytes),
	GM_FIELD(gpumap_share_info, "holders", n_holders),
	{ 0 },
};

/* Each list says which sessions, shares or maps a drain of @row ends or leaves,
 * as an array, and as text without --json. */
static json_t *list_sessions(const struct gm_ctl *ctl, uint32_t row)
{
	struct gpumap_session_info *all = NULL;
	char user[GM_CTL_NAME], command[GM_CTL_NAME];
	int n = gm_list_session(ctl->map, &all);
	json_t *list = json_array();

	if (n < 0)
		gm_ctl_fail(ctl, n, "row %u", row);
	for (int i = 0; i < n; i++) {
		const struct gpumap_session_info *s = &all[i];

		if (!gm_ctl_has_row(s->rows, row))
			continue;
		json_array_append_new(
			list, gm_ctl_fields_json(ctl, session_fields, s, NULL));
		if (!ctl->json)
			printf("  session %llu of process %u, %s, user %s: its "
			       "jobs and buffers there\n",
			       (unsigned long long)s->id, s->pid,
			       gm_ctl_command(ctl, s->pid, s->uid, command),
			       gm_ctl_user(s->uid, user));
	}
	free(all);
	return list;
}

static json_t *list_shares(const struct gm_ctl *ctl, uint32_t row)
{
	struct gpumap_share_info *all = NULL;
	char user[GM_CTL_NAME], size[32];
	int n = gm_list_share(ctl->map, &all);
	json_t *list = json_array();

	if (n < 0)
		gm_ctl_fail(ctl, n, "row %u", row);
	for (int i = 0; i < n; i++) {
		const struct gpumap_share_info *s = &all[i];

		if (!gm_ctl_has_row(s->rows, row))
			continue;
		json_array_append_new(
			list, gm_ctl_fields_json(ctl, share_fields, s, NULL));
		if (!ctl->json)
			printf("  share \"%s\" of user %s: all of it, %s on "
			       "all its rows, for %u session%s\n",
			       s->name, gm_ctl_user(s->uid, user),
			       gm_size_text(s->bytes, size), s->n_holders,
			       gm_ctl_s(s->n_holders));
	}
	free(all);
	return list;
}

/* Layer maps stay, with what they reserve: they have a heading of their own. */
static json_t *list_maps(const struct gm_ctl *ctl, uint32_t row)
{
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	char name[GPUMAP_NAME_MAX + 1];
	json_t *list = json_array();
	uint32_t cursor = 0;

	while (gpumap_layers_next(ctl->map, &cursor, name) == 1) {
		struct gpumap_layers head = { .size = sizeof(head) };
		uint32_t i = 0;

		if (gpumap_layers_read(ctl->map, name, &head, NULL, NULL, 0,
				       charges, GPUMAP_ROWS_MAX) != 0)
			continue; /* released meanwhile */
		while (i < head.n_rows && charges[i].row != row)
			i++;
		if (i == head.n_rows)
			continue;
		if (!ctl->json)
			printf("%s  layer map \"%s\", with %u layer%s there\n",
			       json_array_size(list) == 0 ? "and would leave:\n"
							  : "",
			       name, charges[i].n_layers,
			       gm_ctl_s(charges[i].n_layers));
		json_array_append_new(list, json_string(name));
	}
	return list;
}

/* ---- out of service, and back ------------------------------------------ */

static uint32_t read_row(const struct gm_ctl *ctl)
{
	uint64_t row;

	if (gm_parse_number(ctl->args[0], &row) != 0 || row >= UINT32_MAX)
		gm_ctl_wrong("\"%s\" is no row: gpumapctl devices lists them",
			     ctl->args[0]);
	if (row >= gpumap_device_count(ctl->map))
		gm_ctl_no_row((uint32_t)row);
	return (uint32_t)row;
}

/* The row's buffers, which a drain ends. */
struct watch {
	const struct gm_ctl *ctl;
	uint32_t row;
	struct gpumap *map; /* an attachment's requests wait for each other */
	uint64_t bytes;     /* at the first look */
};

static void look(struct gm_progress *progress)
{
	struct watch *watch = progress->data;
	struct gpumap_attach_opts opts = gm_ctl_where(watch->ctl);
	struct gpumap_usage *all = NULL;
	uint64_t left = 0;
	int n;

	if (watch->map == NULL && gpumap_attach(&opts, &watch->map) != 0)
		return;
	n = gm_list_usage(watch->map, &all);
	for (int i = 0; i < n; i++)
		if (all[i].row == watch->row)
			left += all[i].bytes;
	free(all);
	if (n >= 0 && watch->bytes == 0)
		watch->bytes = left;
	if (n < 0 || watch->bytes == 0)
		return;
	progress->facts.unit = NULL;
	gm_progress_tell(progress,
			 left < watch->bytes ? watch->bytes - left : 0,
			 watch->bytes);
}

static void report(const struct gm_ctl *ctl, int error, const char *done)
{
	if (error != 0)
		gm_ctl_fail(ctl, error, "row %s", ctl->args[0]);
	if (ctl->json)
		gm_ctl_print(
			json_pack("{s:I}", done, (json_int_t)read_row(ctl)));
}

void gm_ctl_drain(struct gm_ctl *ctl)
{
	uint32_t row = read_row(ctl);
	struct watch watch = { .ctl = ctl, .row = row };
	struct gm_progress progress = { .look = look, .data = &watch };
	json_t *sessions, *shares, *maps;
	int ret;

	if (!GM_GIVEN(ctl, DRY_RUN)) {
		gm_progress_begin(&progress, ctl, "drain row", ctl->args[0],
				  "rows", 1);
		ret = gpumap_device_drain(ctl->map, row);
		gm_progress_end(&progress, ret == 0);
		gpumap_detach(watch.map);
		report(ctl, ret, "drained");
		return;
	}
	if (!ctl->json)
		printf("a drain of row %u would end:\n", row);
	sessions = list_sessions(ctl, row);
	shares = list_shares(ctl, row);
	if (!ctl->json &&
	    json_array_size(sessions) + json_array_size(shares) == 0)
		puts("  nothing");
	maps = list_maps(ctl, row);
	if (ctl->json)
		gm_ctl_print(json_pack("{s:I, s:O, s:O, s:O}", "row",
				       (json_int_t)row, "sessions", sessions,
				       "shares", shares, "maps", maps));
	json_decref(sessions);
	json_decref(shares);
	json_decref(maps);
}

void gm_ctl_undrain(struct gm_ctl *ctl)
{
	report(ctl, gpumap_device_undrain(ctl->map, read_row(ctl)),
	       "undrained");
}

void gm_ctl_cordon(struct gm_ctl *ctl)
{
	report(ctl, gpumap_device_cordon(ctl->map, read_row(ctl)), "cordoned");
}

void gm_ctl_uncordon(struct gm_ctl *ctl)
{
	report(ctl, gpumap_device_uncordon(ctl->map, read_row(ctl)),
	       "uncordoned");
}
