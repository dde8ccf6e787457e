/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/internal.h"

#include <stdlib.h>

struct gm_session_part *gm_part_take(struct gpumap_session *session,
				     const struct gm_session_part_kind *kind)
{
	struct gm_session_part *part = session->parts;

	while (part != NULL && part->kind != kind)
		part = part->next;
	if (part != NULL)
		return part;
	part = calloc(1, kind->bytes);
	if (part == NULL)
		return NULL;
	part->kind = kind;
	part->session = session;
	part->next = session->parts;
	session->parts = part;
	return part;
}

void gm_parts_turn(struct gpumap_session *session)
{
	for (struct gm_session_part *p = session->parts; p != NULL; p = p->next)
		if (p->wants_turn)
			p->kind->turn(p);
}

void gm_parts_share_closed(struct gpumap_session *session, uint64_t share)
{
	for (struct gm_session_part *p = session->parts; p != NULL; p = p->next)
		if (p->kind->share_closed != NULL)
			p->kind->share_closed(p, share);
}

void gm_parts_drop(struct gpumap_session *session)
{
	struct gm_session_part *part;

	while ((part = session->parts) != NULL) {
		session->parts = part->next;
		part->kind->drop(part);
		free(part);
	}
}
