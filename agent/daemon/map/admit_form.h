/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * admit_form - the records of ROOM, PUBLISH and RESERVE: is what a client wrote
 * something that can be asked for?
 */
#ifndef GM_DAEMON_MAP_ADMIT_FORM_H
#define GM_DAEMON_MAP_ADMIT_FORM_H

#include "shm/control.h"

struct gm_connection;
struct gm_daemon;
struct gm_request;

/* Each returns 0, or a negative status with the refusal's text in place. */

/* Check the part that the three have in common. */
int gm_admit_check_head(struct gm_connection *c, const struct gm_room *head);

/* The parts of a tail; they point into it. */
struct gm_publish_parts {
	const struct gm_charge_image *charges;
	const struct gm_plan_run *runs;
	const uint64_t *bytes; /* NULL: not known */
	const uint32_t *rows;
	const char *spec;
};

/* @tail is aligned to 8. */
int gm_admit_check_publish(struct gm_connection *c,
			   const struct gm_publish *ask, const char *tail,
			   uint32_t tail_bytes,
			   struct gm_publish_parts *ret_parts);

int gm_admit_check_reserve(struct gm_connection *c,
			   const struct gm_reserve_ask *ask, const char *tail,
			   uint32_t tail_bytes);

#endif
