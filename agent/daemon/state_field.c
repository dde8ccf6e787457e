/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state_field.h"

#include <stdlib.h>
#include <string.h>

#include "shm/objects.h"

void gm_state_field_name(struct gm_fields *f, const char *key,
			 char ret_name[GM_NAME_BYTES])
{
	const char *text = gm_field_text(f, key);
	char *name = text != NULL ? malloc(strlen(text) + 1) : NULL;

	if (text != NULL && name == NULL)
		f->r = gm_error_no_memory(f->err);
	else if (text != NULL && (gm_state_text_unescape(text, name) < 0 ||
				  gm_object_name(name) == 0))
		gm_field_refuse(f, key, "cannot be one");
	if (f->r == 0)
		strcpy(ret_name, name);
	free(name);
}
