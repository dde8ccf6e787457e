/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Take rows out of service and back, and list what that would end. */

#include "agent/ctl/ctl.h"

#include <stdio.h>
#include <stdlib.h>

#include "agent/ctl/parse.h"
#include "agent/ctl/progress.h"
#include "agent/reader/list.h"

/* ---- a dry run ----------------------------------------------------------- */

/* A list of the objects that a drain of @row ends, or leaves. */
struct hit {
	const struct gm_ctl *ctl;
	uint32_t row;
	json_t *sessions; /* all NULL: as text */
	json_t *shares;
	json_t *maps;
	uint32_t n; /* sessions and shares */
	uint32_t n_maps;
};

static void hit_session(struct hit *hit, const struct gpumap_session_info *info)
{
	char user[GM_CTL_NAME], command[GM_CTL_NAME];
	json_t *object;

	hit->n++;
	if (hit->sessions == NULL) {
		printf("  session %llu of process %u, %s, user %s: its jobs "
		       "and buffers there\n",
		       (unsigned long long)info->id, info->pid,
		       gm_ctl_command(hit->ctl, info->pid, info->uid, command),
		       gm_ctl_user(info->uid, user));
		return;
	}
	object = json_pack("{s:I, s:I, s:I}", "id", (json_int_t)info->id, "pid",
			   (json_int_t)info->pid, "uid", (json_int_t)info->uid);
	gm_ctl_name_json(hit->ctl, object, info->uid, info->pid);
	json_array_append_new(hit->sessions, object);
}

static void hit_share(struct hit *hit, const struct gpumap_share_info *info)
{
	char user[GM_CTL_NAME], size[32];

	hit->n++;
	if (hit->shares == NULL)
		printf("  share \"%s\" of user %s: all of it, %s on all its "
		       "rows, for %u session%s\n",
		       info->name, gm_ctl_user(info->uid, user),
		       gm_size_text(info->bytes, size), info->n_holders,
		       gm_ctl_s(info->n_holders));
	else
		json_array_append_new(
			hit->shares,
			json_pack("{s:s, s:I, s:I, s:I}", "name", info->name,
				  "uid", (json_int_t)info->uid, "bytes",
				  (json_int_t)info->bytes, "holders",
				  (json_int_t)info->n_holders));
}

static int list_sessions(struct hit *hit)
{
	struct gpumap_session_info *list = NULL;
	int n = gm_list_session(hit->ctl->map, &list);

	for (int i = 0; i < n; i++)
		if (gm_ctl_has_row(list[i].rows, hit->row))
			hit_session(hit, &list[i]);
	free(list);
	return n < 0 ? n : 0;
}

static int list_shares(struct hit *hit)
{
	struct gpumap_share_info *list = NULL;
	int n = gm_list_share(hit->ctl->map, &list);

	for (int i = 0; i < n; i++)
		if (gm_ctl_has_row(list[i].rows, hit->row))
			hit_share(hit, &list[i]);
	free(list);
	return n < 0 ? n : 0;
}

/* Layer maps stay, with what they reserve: they have a heading of their own. */
static void list_maps(struct hit *hit)
{
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	char name[GPUMAP_NAME_MAX + 1];
	uint32_t cursor = 0;

	while (gpumap_layers_next(hit->ctl->map, &cursor, name) == 1) {
		struct gpumap_layers head = { .size = sizeof(head) };

		if (gpumap_layers_read(hit->ctl->map, name, &head, NULL, NULL,
				       0, charges, GPUMAP_ROWS_MAX) != 0)
			continue; /* released meanwhile */
		for (uint32_t i = 0; i < head.n_rows; i++) {
			if (charges[i].row != hit->row)
				continue;
			if (hit->maps != NULL)
				json_array_append_new(hit->maps,
						      json_string(name));
			else
				printf("%s  layer map \"%s\", with %u layer%s "
				       "there\n",
				       hit->n_maps == 0 ? "and would leave:\n"
							: "",
				       name, charges[i].n_layers,
				       gm_ctl_s(charges[i].n_layers));
			hit->n_maps++;
		}
	}
}

static int dry_run(struct gm_ctl *ctl, uint32_t row)
{
	struct hit hit = { .ctl = ctl, .row = row };
	int ret;

	if (ctl->json) {
		hit.sessions = json_array();
		hit.shares = json_array();
		hit.maps = json_array();
	} else {
		printf("a drain of row %u would end:\n", row);
	}
	ret = list_sessions(&hit);
	if (ret == 0)
		ret = list_shares(&hit);
	if (ret == 0 && hit.n == 0 && !ctl->json)
		puts("  nothing");
	if (ret == 0)
		list_maps(&hit);
	if (ret == 0 && ctl->json)
		return gm_ctl_print(json_pack("{s:I, s:o, s:o, s:o}", "row",
					      (json_int_t)row, "sessions",
					      hit.sessions, "shares",
					      hit.shares, "maps", hit.maps));
	json_decref(hit.sessions);
	json_decref(hit.shares);
	json_decref(hit.maps);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "row %u", row);
	return GM_EXIT_OK;
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

/* Returns false where the agent does not say. */
static bool bytes_on(struct gpumap *map, uint32_t row, uint64_t *ret_bytes)
{
	struct gpumap_usage *list = NULL;
	int n = gm_list_usage(map, &list);
	uint64_t bytes = 0;

	for (int i = 0; i < n; i++)
		if (list[i].row == row)
			bytes += list[i].bytes;
	free(list);
	*ret_bytes = bytes;
	return n >= 0;
}

static void look(struct gm_progress *progress)
{
	struct watch *watch = progress->data;
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = watch->ctl->instance,
					   .runtime_dir =
						   watch->ctl->runtime_dir };
	uint64_t left;

	if (watch->map == NULL && gpumap_attach(&opts, &watch->map) != 0)
		return;
	if (!bytes_on(watch->map, watch->row, &left))
		return;
	if (watch->bytes == 0)
		watch->bytes = left;
	if (watch->bytes == 0)
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
