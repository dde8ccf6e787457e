/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Who has reserved what: the committed layer maps. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <stdio.h>

/* One of them, and what it takes of each row. */
struct reservation {
	struct gpumap_holder holder;
	struct gpumap_charge charges[GPUMAP_ROWS_MAX];
	uint32_t n;
};

static uint64_t charged(const struct gpumap_charge *charge)
{
	return charge->weight_bytes + charge->kv_bytes +
	       charge->activation_bytes + charge->reserve_bytes;
}

static uint64_t charged_in_all(const struct reservation *r)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < r->n; i++)
		sum += charged(&r->charges[i]);
	return sum;
}

/* Returns 1, 0 after the last, or a negative errno. */
static int next(const struct gm_ctl *ctl, uint32_t *cursor,
		struct reservation *r)
{
	for (;;) {
		struct gpumap_layers head = { .size = sizeof(head) };
		int ret;

		r->holder.size = sizeof(r->holder);
		ret = gpumap_who(ctl->map, cursor, &r->holder);
		if (ret != 1)
			return ret;
		ret = gpumap_layers_read(ctl->map, r->holder.name, &head, NULL,
					 NULL, 0, r->charges, GPUMAP_ROWS_MAX);
		if (ret == -ENOENT ||
		    (ret == 0 && head.version != r->holder.version))
			continue; /* released, or another by now */
		r->n = head.n_rows;
		return ret == 0 ? 1 : ret;
	}
}

static json_t *to_json(const struct reservation *r)
{
	const struct gpumap_holder *holder = &r->holder;
	json_t *rows = json_array();

	for (uint32_t i = 0; i < r->n; i++)
		json_array_append_new(
			rows, json_pack("{s:I, s:I}", "row",
					(json_int_t)r->charges[i].row, "bytes",
					(json_int_t)charged(&r->charges[i])));
	return json_pack("{s:s, s:I, s:I, s:I, s:o, s:I, s:o}", "name",
			 holder->name, "version", (json_int_t)holder->version,
			 "since_ns", (json_int_t)holder->since_ns, "uid",
			 (json_int_t)holder->uid, "pid",
			 holder->pid != 0
				 ? json_integer((json_int_t)holder->pid)
				 : json_null(),
			 "bytes", (json_int_t)charged_in_all(r), "rows", rows);
}

static void to_line(const struct reservation *r)
{
	char size[32], life[16] = "-";

	if (r->holder.pid != 0)
		snprintf(life, sizeof(life), "%u", r->holder.pid);
	printf("%-24s %8u %8s %10s ", r->holder.name, r->holder.uid, life,
	       gm_ctl_size(charged_in_all(r), size));
	for (uint32_t i = 0; i < r->n; i++)
		printf(" %u:%s", r->charges[i].row,
		       gm_ctl_size(charged(&r->charges[i]), size));
	putchar('\n');
}

int gm_ctl_who(struct gm_ctl *ctl)
{
	json_t *list = ctl->json ? json_array() : NULL;
	struct reservation r;
	uint32_t cursor = 0;
	int ret;

	if (!ctl->json)
		printf("%-24s %8s %8s %10s  %s\n", "name", "uid", "pid",
		       "reserved", "of rows");
	while ((ret = next(ctl, &cursor, &r)) == 1) {
		if (ctl->json)
			json_array_append_new(list, to_json(&r));
		else
			to_line(&r);
	}
	if (ret != 0) {
		json_decref(list);
		return gm_ctl_fail(ctl, ret, "reservations");
	}
	if (!ctl->json)
		return GM_EXIT_OK;
	return gm_ctl_print(json_pack("{s:o}", "reservations", list));
}
