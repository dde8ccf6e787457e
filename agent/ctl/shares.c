/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* List and release shares. */

#include "agent/ctl/ctl.h"
#include "agent/ctl/progress.h"
#include "agent/reader/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *access_of(const struct gpumap_share_info *info)
{
	return info->flags & GPUMAP_SHARE_READ_ONLY ? "read-only"
						    : "read-write";
}

/* In hexadecimal digits; "-": it has none. */
static const char *print_of(const struct gpumap_share_info *info,
			    char ret_text[65])
{
	uint8_t any = 0;

	for (size_t i = 0; i < sizeof(info->fingerprint); i++) {
		any |= info->fingerprint[i];
		snprintf(ret_text + 2 * i, 3, "%02x", info->fingerprint[i]);
	}
	return any != 0 ? ret_text : "-";
}

static json_t *to_json(const struct gm_ctl *ctl,
		       const struct gpumap_share_info *info)
{
	char text[65];
	json_t *object = json_pack(
		"{s:I, s:s, s:I, s:o, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I}",
		"share", (json_int_t)info->share, "name", info->name, "uid",
		(json_int_t)info->uid, "pid",
		info->pid != 0 ? json_integer((json_int_t)info->pid)
			       : json_null(),
		"access", access_of(info), "any_user",
		(info->flags & GPUMAP_SHARE_ANY_USER) != 0, "kept",
		(info->flags & GPUMAP_SHARE_KEEP) != 0, "buffers",
		(json_int_t)info->n_buffers, "holders",
		(json_int_t)info->n_holders, "bytes", (json_int_t)info->bytes,
		"about_bytes", (json_int_t)info->about_bytes, "age_ns",
		(json_int_t)info->age_ns);

	const char *print = print_of(info, text);

	json_object_set_new(object, "fingerprint",
			    print == text ? json_string(text) : json_null());
	json_object_set_new(object, "rows", gm_ctl_rows_json(info->rows));
	gm_ctl_name_json(ctl, object, info->uid, info->pid);
	return object;
}

static void to_line(const struct gm_ctl *ctl,
		    const struct gpumap_share_info *info)
{
	char user[GM_CTL_NAME], command[GM_CTL_NAME], pid[16] = "-", size[32];
	char text[65];

	if (info->pid != 0)
		snprintf(pid, sizeof(pid), "%u", info->pid);
	printf("%-24s %-12.12s %8s %-15s %-10s %-4s %7u %7u %10s %7.1f s  "
	       "%.12s\n",
	       info->name, gm_ctl_user(info->uid, user), pid,
	       gm_ctl_command(ctl, info->pid, info->uid, command),
	       access_of(info), info->flags & GPUMAP_SHARE_KEEP ? "yes" : "no",
	       info->n_buffers, info->n_holders,
	       gm_size_text(info->bytes, size), (double)info->age_ns / 1e9,
	       print_of(info, text));
}

int gm_ctl_shares(struct gm_ctl *ctl)
{
	struct gpumap_share_info *info;
	json_t *list = NULL;
	int n = gm_list_share(ctl->map, &info);

	if (n < 0)
		return gm_ctl_fail(ctl, n, "shares");
	if (ctl->json)
		list = json_array();
	else
		printf("%-24s %-12s %8s %-15s %-10s %-4s %7s %7s %10s %9s  "
		       "%s\n",
		       "name", "user", "pid", "command", "access", "kept",
		       "buffers", "holders", "size", "age", "fingerprint");
	for (int i = 0; i < n; i++) {
		if (ctl->json)
			json_array_append_new(list, to_json(ctl, &info[i]));
		else
			to_line(ctl, &info[i]);
	}
	free(info);
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:o}", "shares", list));
}

int gm_ctl_shares_release(struct gm_ctl *ctl)
{
	const char *name = ctl->args[0];
	struct gm_progress progress = {
		.ctl = ctl, .what = "release", .name = name, .unit = "names"
	};
	int ret;

	gm_progress_begin(&progress, 1);
	ret = gpumap_share_release(ctl->map, name);
	gm_progress_end(&progress, ret == 0);
	if (ret == -ENOENT)
		return gm_ctl_unknown("share", name, "shares");
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "release \"%s\"", name);
	if (ctl->json)
		return gm_ctl_print(json_pack("{s:s}", "released", name));
	printf("released \"%s\"\n", name);
	return GM_EXIT_OK;
}
