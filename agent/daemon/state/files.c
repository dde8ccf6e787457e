/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state/files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/parts.h"
#include "agent/daemon/base/user.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/state/state.h"
#include "shm/objects.h"

/* ---- names that wait ----------------------------------------------------- */

void gm_state_waiting_add(struct gm_state_waiting_list *list,
			  struct gm_state_waiting *waiting, const char *name,
			  uint32_t uid)
{
	waiting->uid = uid;
	memcpy(waiting->name, name, gm_object_name(name));
	TAILQ_INSERT_TAIL(list, waiting, entry);
}

struct gm_state_waiting *
gm_state_waiting_find(const struct gm_state_waiting_list *list,
		      const char *name)
{
	struct gm_state_waiting *waiting;

	TAILQ_FOREACH(waiting, list, entry)
	{
		if (strcmp(waiting->name, name) == 0)
			break;
	}
	return waiting;
}

int gm_state_waiting_may_replace(const struct gm_state_waiting_list *list,
				 const char *what, const char *name,
				 uint32_t uid, char ret_why[GM_WHY_BYTES],
				 bool *ret_is_waiting)
{
	const struct gm_state_waiting *waiting =
		gm_state_waiting_find(list, name);

	if (waiting != NULL && !gm_user_is_privileged(uid)) {
		if (waiting->is_unread)
			return gm_why(ret_why, -EACCES,
				      "%s %s has a file that the disk does "
				      "not give out: choose another name, or "
				      "have the administrator look at the disk",
				      what, name);
		if (waiting->uid != uid)
			return gm_why(ret_why, -EACCES,
				      "%s %s belongs to uid %u, and waits for "
				      "its devices: choose another name",
				      what, name, waiting->uid);
	}
	if (ret_is_waiting != NULL)
		*ret_is_waiting = waiting != NULL;
	return 0;
}

/* ---- files at a start ---------------------------------------------------- */

struct gm_quoted gm_state_files_path(const struct gm_daemon *d,
				     const char *file)
{
	char path[GM_STATE_PATH_BYTES + NAME_MAX + 2];

	snprintf(path, sizeof(path), "%s/%s", d->state->dir.path, file);
	return gm_quote(path);
}

bool gm_state_files_is_bad(int error)
{
	return error == -EPROTO || error == -EBADMSG;
}

void gm_state_files_refuse(const struct gm_daemon *d, const char *file,
			   const char *why)
{
	int ret = gm_state_dir_refuse(&d->state->dir, file);

	gm_log(GM_LOG_ERROR, "state_refused", "path=%s why=%s",
	       gm_state_files_path(d, file).text, gm_quote(why).text);
	if (ret != 0)
		gm_log(GM_LOG_ERROR, "state_stuck", "path=%s error=%s",
		       gm_state_files_path(d, file).text,
		       gm_quote(strerror(-ret)).text);
}

bool gm_state_files_read(const struct gm_daemon *d, const char *file,
			 int (*parse)(const char *text, size_t bytes,
				      void *ret_what, char *ret_why),
			 const char *without, void *ret_what, bool *ret_unread)
{
	char why[GM_WHY_BYTES] = "";
	size_t bytes;
	char *text;
	int ret = gm_state_dir_read(&d->state->dir, file, why, &text, &bytes);

	if (ret == 0) {
		ret = parse(text, bytes, ret_what, why);
		free(text);
	}
	*ret_unread = ret != 0 && ret != -ENOENT && !gm_state_files_is_bad(ret);
	if (gm_state_files_is_bad(ret))
		gm_state_files_refuse(d, file, why);
	if (*ret_unread)
		gm_log(GM_LOG_ERROR, "state_unread", "path=%s why=%s remedy=%s",
		       gm_state_files_path(d, file).text,
		       gm_quote(why[0] != '\0' ? why : strerror(-ret)).text,
		       gm_quote(without).text);
	return ret == 0;
}

int gm_state_files_keep(const struct gm_daemon *d, const char *file,
			char ret_why[GM_WHY_BYTES])
{
	return gm_why(ret_why, -EIO,
		      "%s/%s could not be read at the agent's start, and would "
		      "be lost: look at the disk and restart the agent",
		      d->state->dir.path, file);
}

int gm_state_files_write(const struct gm_state_dir *dir, const char *file,
			 void (*print)(FILE *to, const void *what),
			 const void *what, char ret_why[GM_WHY_BYTES])
{
	char *body = NULL, *text = NULL;
	size_t bytes = 0, text_bytes = 0;
	FILE *to = open_memstream(&body, &bytes);
	int ret = -ENOMEM;

	if (to != NULL) {
		print(to, what);
		ret = gm_state_text_frame(to, &body, &bytes, &text,
					  &text_bytes);
	}
	if (ret != 0)
		return gm_why(ret_why, ret, "out of memory");
	ret = gm_state_dir_write(dir, file, text, text_bytes, ret_why);
	free(text);
	return ret;
}

void gm_state_files_drop_unknown(struct gm_daemon *d, uint32_t kind,
				 const bool *keep)
{
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory->objects[i];
		char name[GM_NAME_BYTES], why[GM_WHY_BYTES];

		if (block->unit == 0 || block->kind != kind || keep[i])
			continue;
		memcpy(name, block->name, sizeof(name));
		gm_log(GM_LOG_WARNING, "state_unknown", "name=%s version=%llu",
		       name, (unsigned long long)block->version);
		gm_directory_remove(d, kind, name, geteuid(), why);
	}
}
