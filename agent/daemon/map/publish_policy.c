/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Who may publish what under which name. */

#include "agent/daemon/map/publish.h"

#include <errno.h>
#include <unistd.h>

#include "agent/daemon/base/name.h"
#include "agent/daemon/daemon.h"

bool gm_publish_privileged(uint32_t uid)
{
	return uid == 0 || uid == geteuid();
}

static int judge_quota(const struct gm_daemon *d, uint32_t uid,
		       const struct gm_block *present, uint64_t bytes,
		       char *ret_why)
{
	uint32_t objects = 1;

	if (gm_publish_privileged(uid))
		return 0;
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		const struct gm_block *block = &d->directory.objects[i];

		if (block->unit == 0 || block == present ||
		    block->owner_uid != uid)
			continue;
		objects++;
		bytes += block->bytes;
	}
	if (objects > d->config.objects_per_uid)
		return gm_why(
			ret_why, -EDQUOT,
			"uid %u has %u objects published: release one, or "
			"raise limits.objects-per-uid",
			uid, objects - 1);
	if (bytes > d->config.object_bytes_per_uid)
		return gm_why(ret_why, -EDQUOT,
			      "uid %u would have %llu bytes published: release "
			      "objects, or raise limits.object-bytes-per-uid",
			      uid, (unsigned long long)bytes);
	return 0;
}

static const char *noun_of(uint32_t kind)
{
	return kind == GM_KIND_MASK   ? "mask"
	       : kind == GM_KIND_MESH ? "mesh"
				      : "map";
}

int gm_publish_may_replace(const struct gm_daemon *d, uint32_t kind,
			   const char *name, uint32_t uid, uint64_t bytes,
			   char ret_why[GM_WHY_BYTES])
{
	const struct gm_block *present;
	int ret = gm_name_judge(name, ret_why);

	if (ret != 0)
		return ret;
	present = gm_publish_find(d, kind, name);
	if (present != NULL && !gm_publish_privileged(uid) &&
	    present->owner_uid != uid)
		return gm_why(ret_why, -EACCES,
			      "%s %s belongs to uid %u: choose another name",
			      noun_of(kind), name, present->owner_uid);
	return judge_quota(d, uid, present, bytes, ret_why);
}
