/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The value that another node writes about itself, of a node named "a".
 */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "agent/sync/node_name.h"
#include "agent/sync/summary.h"

static void check_text(const char *text, size_t bytes)
{
	const char *end = memchr(text, 0, bytes);

	MUST(end);
	for (; text < end; text++)
		MUST((unsigned char)*text >= ' ');
}

static void check(const struct gm_summary *s)
{
	const struct gpumap_cluster_node *node = &s->node;

	MUST(strcmp(node->name, "a") == 0);
	MUST(gm_node_name_check_address(node->address));
	MUST(strlen(s->instance) == 16 && strlen(s->boot) == 36);
	MUST(node->state == GPUMAP_CLUSTER_LIVE);
	MUST(node->n_devices <= GPUMAP_CLUSTER_ROWS_MAX);
	MUST(node->n_shares <= GPUMAP_CLUSTER_SHARES_MAX);
	MUST(node->n_devices + node->more_devices <= GPUMAP_ROWS_MAX);
	for (uint32_t i = 0; i < node->n_devices; i++) {
		const struct gpumap_cluster_device *d = &s->devices[i];

		check_text(d->name, sizeof(d->name));
		MUST(d->row < GPUMAP_ROWS_MAX);
		MUST(d->kind >= 1 && d->kind <= GPUMAP_DEVICE_DUMMY);
		MUST(d->state >= 1 && d->state <= GPUMAP_DEVICE_LOST);
		MUST(d->free_bytes <= d->total_bytes);
		MUST(d->used_by_holders <= d->reserved_bytes);
		for (uint32_t j = 0; j < i; j++)
			MUST(s->devices[j].row != d->row &&
			     memcmp(s->devices[j].uuid, d->uuid, 16) != 0);
	}
	for (uint32_t i = 0; i < node->n_shares; i++) {
		check_text(s->shares[i].name, sizeof(s->shares[i].name));
		MUST(s->shares[i].name[0] != '\0');
	}
}

/* A value that was read can be written, and is the same again. */
static void check_again(const struct gm_summary *s)
{
	struct gm_summary again = { 0 };
	char value[GM_STORE_VALUE_BYTES], why[GM_WHY_BYTES];
	int n = gm_summary_encode(s, value);

	MUST(n > 0 && n <= (int)sizeof(value));
	MUST(gm_summary_decode(value, (size_t)n, "a", &again, why) == 0);
	MUST(again.node.n_devices + again.node.more_devices ==
	     s->node.n_devices + s->node.more_devices);
	if (again.node.n_devices == s->node.n_devices &&
	    again.node.n_shares == s->node.n_shares)
		MUST(gm_summary_compare(s, &again) == GM_SUMMARY_SAME);
	gm_summary_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_summary s = { 0 };
	char why[GM_WHY_BYTES] = "";
	int r = gm_summary_decode(data, size, "a", &s, why);

	if (r == 0) {
		check(&s);
		check_again(&s);
		gm_summary_free(&s);
		return 0;
	}
	MUST(r == -EPROTO && why[0] != '\0');
	check_text(why, sizeof(why));
	MUST(!s.devices && !s.shares);
	return 0;
}
