/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* topology_yaml - read the entries of a topology file as text. */
#ifndef GM_TOPOLOGY_YAML_H
#define GM_TOPOLOGY_YAML_H

#include <stddef.h>

#include "agent/plan/error.h"

struct gm_topology_text {
	char *selector;
	char *isq;    /* NULL if missing or null */
	char *device; /* likewise */
};

struct gm_topology_texts {
	struct gm_topology_text *v;
	size_t n;
	size_t room;
};

/* Returns 0, -EINVAL, -E2BIG, -ENOMEM. */
int gm_topology_yaml(const char *text, size_t n,
		     struct gm_topology_texts *ret_texts,
		     struct gm_plan_error *ret_err);

void gm_topology_texts_free(struct gm_topology_texts *texts);

#endif
