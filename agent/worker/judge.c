/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/judge.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "gpumap.h"
#include "shm/queue.h"

/* Returns what no honest library writes, or NULL. */
static const char *breach(const struct gm_entry *entry)
{
	if (!gm_op_name(entry->op))
		return "unknown operation";
	if (entry->flags)
		return "unknown flag";
	if (entry->reserved || entry->zero)
		return "reserved bits are set";
	if (entry->dst_buffer || entry->src_buffer)
		return "reserved words are set";
	return NULL;
}

/* Make a pointer out of an offset. */
static int place(const struct gm_judge *judge, uint64_t at, uint64_t bytes,
		 uint32_t each, char **ret_memory)
{
	if (bytes > judge->arena_bytes || at > judge->arena_bytes - bytes)
		return -ERANGE;
	if (at % each != 0)
		return -EINVAL;
	*ret_memory = judge->arena + at;
	return 0;
}

static int make_task(const struct gm_judge *judge, const struct gm_entry *entry,
		     struct gm_task *ret_task, uint64_t *ret_bytes)
{
	uint32_t each = gm_dtype_bytes(entry->dtype);
	uint32_t memory = gm_op_memory(entry->op);
	char *dst = NULL, *src = NULL;
	uint64_t bytes;
	int rc;

	*ret_task = (struct gm_task){ .op = entry->op, .dtype = entry->dtype };
	*ret_bytes = 0;
	if (!memory)
		return 0;
	if (gm_task_bytes(entry->dtype, entry->n, &bytes) < 0)
		return -ERANGE; /* more than any arena has */
	rc = place(judge, entry->dst, bytes, each, &dst);
	if (rc == 0 && (memory & GM_TASK_READS_SRC))
		rc = place(judge, entry->src, bytes, each, &src);
	if (rc < 0)
		return rc;

	ret_task->dst = dst;
	ret_task->src = src;
	ret_task->n = entry->n;
	/* Both readings of the word, alpha and pattern, are its bits. */
	_Static_assert(sizeof(ret_task->alpha) == sizeof(entry->value), "bits");
	memcpy(&ret_task->pattern, &entry->value, sizeof(entry->value));
	if (gm_task_overlaps(ret_task))
		return -EINVAL;
	*ret_bytes = bytes;
	return 0;
}

int gm_judge_entry(const struct gm_judge *judge,
		   const uint64_t words[GM_ENTRY_WORDS],
		   struct gm_verdict *ret_verdict)
{
	struct gm_entry entry;
	int rc;

	gm_entry_unpack(words, &entry);
	ret_verdict->why = breach(&entry);
	if (ret_verdict->why)
		return -EPROTO;
	if (entry.incarnation != judge->incarnation)
		return -EIO;
	rc = gm_op_takes(entry.op, entry.dtype);
	if (rc < 0)
		return rc;
	return make_task(judge, &entry, &ret_verdict->task,
			 &ret_verdict->bytes);
}
