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

/* The objects that a drain of @row ends, or leaves. */
struct hits {
	const struct gm_ctl *ctl;
	uint32_t row;
	uint32_t n; /* sessions and shares */
	uint32_t n_maps;
	json_t *sessions, *shares, *maps;
};

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

/* Returns 0 or a negative errno. */
static int list_sessions(struct hits *hits)
{
	struct gpumap_session_info *all = NULL;
	char user[GM_CTL_NAME], command[GM_CTL_NAME];
	int n = gm_list_session(hits->ctl->map, &all);

	for (int i = 0; i < n; i++) {
		const struct gpumap_session_info *s = &all[i];

		if (!gm_ctl_has_row(s->rows, hits->row))
			continue;
		hits->n++;
		json_array_append_new(
			hits->sessions,
			gm_ctl_fields_json(hits->ctl, session_fields, s, NULL));
		if (!hits->ctl->json)
			printf("  session %llu of process %u, %s, user %s: its "
			       "jobs and buffers there\n",
			       (unsigned long long)s->id, s->pid,
			       gm_ctl_command(hits->ctl, s->pid, s->uid,
					      command),
			       gm_ctl_user(s->uid, user));
	}
	free(all);
	return n < 0 ? n : 0;
}

static int list_shares(struct hits *hits)
{
	struct gpumap_share_info *all = NULL;
	char user[GM_CTL_NAME], size[32];
	int n = gm_list_share(hits->ctl->map, &all);

	for (int i = 0; i < n; i++) {
		const struct gpumap_share_info *s = &all[i];

		if (!gm_ctl_has_row(s->rows, hits->row))
			continue;
		hits->n++;
		json_array_append_new(
			hits->shares,
			gm_ctl_fields_json(hits->ctl, share_fields, s, NULL));
		if (!hits->ctl->json)
			printf("  share \"%s\" of user %s: all of it, %s on "
			       "all its rows, for %u session%s\n",
			       s->name, gm_ctl_user(s->uid, user),
			       gm_size_text(s->bytes, size), s->n_holders,
			       gm_ctl_s(s->n_holders));
	}
	free(all);
	return n < 0 ? n : 0;
}

/* Layer maps stay, with what they reserve: they have a heading of their own. */
static void list_maps(struct hits *hits)
{
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	while (gpumap_layers_next(hits->ctl->map, &cursor, name) == 1) {
		struct gpumap_layers head = { .size = sizeof(head) };

		if (gpumap_layers_read(hits->ctl->map, name, &head, NULL, NULL,
				       0, charges, GPUMAP_ROWS_MAX) != 0)
			continue; /* released meanwhile */
		for (uint32_t i = 0; i < head.n_rows; i++) {
			uint32_t n = charges[i].n_layers;

			if (charges[i].row != hits->row)
				continue;
			json_array_append_new(hits->maps, json_string(name));
			if (!hits->ctl->json)
				printf("%s  layer map \"%s\", with %u layer%s "
				       "there\n",
				       hits->n_maps == 0 ? "and would leave:\n"
							 : "",
				       name, n, gm_ctl_s(n));
			hits->n_maps++;
		}
	}
}

static int dry_run(struct gm_ctl *ctl, uint32_t row)
{
	struct hits hits = { .ctl = ctl,
			     .row = row,
			     .sessions = json_array(),
			     .shares = json_array(),
			     .maps = json_array() };
	json_t *object;
	int ret;

	if (!ctl->json)
		printf("a drain of row %u would end:\n", row);
	ret = list_sessions(&hits);
	if (ret == 0)
		ret = list_shares(&hits);
	if (ret == 0 && hits.n == 0 && !ctl->json)
		puts("  nothing");
	if (ret == 0)
		list_maps(&hits);
	object = json_pack("{s:I, s:o, s:o, s:o}", "row", (json_int_t)row,
			   "sessions", hits.sessions, "shares", hits.shares,
			   "maps", hits.maps);
	if (ret == 0 && ctl->json)
		return gm_ctl_print(object);
	json_decref(object);
	return ret == 0 ? GM_EXIT_OK : gm_ctl_fail(ctl, ret, "row %u", row);
}

/* ---- out of service, and back ------------------------------------------ */

static int parse_row(const struct gm_ctl *ctl, uint32_t *ret_row)
{
	uint64_t row;

	if (gm_parse_number(ctl->args[0], &row) != 0 || row >= UINT32_MAX)
		return gm_ctl_wrong(
			"\"%s\" is no row: gpumapctl devices lists them",
			ctl->args[0]);
	*ret_row = (uint32_t)row;
	if (row >= gpumap_device_count(ctl->map))
		return gm_ctl_no_row((uint32_t)row);
	return GM_EXIT_OK;
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
	progress->unit = NULL;
	gm_progress_tell(progress,
			 left < watch->bytes ? watch->bytes - left : 0,
			 watch->bytes);
}

static int drain(struct gm_ctl *ctl, uint32_t row)
{
	struct watch watch = { .ctl = ctl, .row = row };
	struct gm_progress progress = { .ctl = ctl,
					.what = "drain row",
					.name = ctl->args[0],
					.unit = "rows",
					.look = look,
					.data = &watch };
	int ret;

	gm_progress_begin(&progress, 1);
	ret = gpumap_device_drain(ctl->map, row);
	gm_progress_end(&progress, ret == 0);
	gpumap_detach(watch.map);
	return ret;
}

/* @call NULL: a drain, whose progress is shown. */
static int serve(struct gm_ctl *ctl, const char *what,
		 int (*call)(struct gpumap *map, uint32_t row))
{
	uint32_t row;
	int ret = parse_row(ctl, &row);

	if (ret != GM_EXIT_OK)
		return ret;
	ret = call != NULL ? call(ctl->map, row) : drain(ctl, row);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "row %s", ctl->args[0]);
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:I}", what, (json_int_t)row));
}

int gm_ctl_drain(struct gm_ctl *ctl)
{
	uint32_t row;
	int ret;

	if (!GM_GIVEN(ctl, DRY_RUN))
		return serve(ctl, "drained", NULL);
	ret = parse_row(ctl, &row);
	return ret == GM_EXIT_OK ? dry_run(ctl, row) : ret;
}

int gm_ctl_undrain(struct gm_ctl *ctl)
{
	return serve(ctl, "undrained", gpumap_device_undrain);
}

int gm_ctl_cordon(struct gm_ctl *ctl)
{
	return serve(ctl, "cordoned", gpumap_device_cordon);
}

int gm_ctl_uncordon(struct gm_ctl *ctl)
{
	return serve(ctl, "uncordoned", gpumap_device_uncordon);
}
