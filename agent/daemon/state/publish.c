/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state/publish.h"

#include <stdlib.h>

#include "agent/daemon/account/ledger.h"
#include "agent/daemon/base/parts.h"

static int make_room(struct gm_daemon *d, const struct gm_state_kind *kind,
		     uint64_t *words, bool is_restored, char *ret_why,
		     struct gm_put *ret_put)
{
	const struct gm_object_image *image = (const void *)words;
	const struct gm_block *present =
		gm_directory_find(d, kind->number, image->name);
	uint32_t slot = present != NULL
				? (uint32_t)(present - d->directory->objects)
				: GM_LEDGER_NOBODY;
	struct gm_reservation *reservation = NULL;
	int ret = 0;

	if (kind->promise != NULL)
		ret = kind->promise(d, words, slot, is_restored, ret_why,
				    &reservation);
	if (ret != 0)
		return ret;
	ret = gm_directory_prepare(d, words, image->version + 1, ret_why,
				   ret_put);
	if (ret == 0)
		ret_put->reservation = reservation;
	else
		free(reservation);
	return ret;
}

static void show(struct gm_daemon *d, const struct gm_state_kind *kind,
		 const uint64_t *words, const struct gm_put *put,
		 bool is_restored)
{
	if (kind->before_show != NULL)
		kind->before_show(d, &put->block);
	gm_directory_store(d, put);
	if (kind->after_show != NULL)
		kind->after_show(d, put, words, is_restored);
}

int gm_publish_prepare(struct gm_daemon *d, const struct gm_state_kind *kind,
		       uint64_t *words, char ret_why[GM_WHY_BYTES],
		       struct gm_put *ret_put)
{
	const struct gm_object_image *image = (const void *)words;
	int ret = gm_directory_may_replace(d, kind->number, image->name,
					   image->owner_uid, image->bytes,
					   ret_why);

	return ret == 0 ? make_room(d, kind, words, false, ret_why, ret_put)
			: ret;
}

void gm_publish_store(struct gm_daemon *d, const struct gm_state_kind *kind,
		      const uint64_t *words, const struct gm_put *put)
{
	show(d, kind, words, put, false);
}

int gm_publish_restore(struct gm_daemon *d, const struct gm_state_kind *kind,
		       uint64_t *words, char ret_why[GM_WHY_BYTES])
{
	struct gm_put put;
	int ret = make_room(d, kind, words, true, ret_why, &put);

	if (ret == 0)
		show(d, kind, words, &put, true);
	return ret;
}
