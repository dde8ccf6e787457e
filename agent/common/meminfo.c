/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/meminfo.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/read_file.h"

#define NODE_DIR "/sys/devices/system/node"

/* Kibibytes as the kernel prints them; what a kernel lacks stays 0. */
struct figures {
	bool seen_total; /* a node without memory says 0, and that is known */
	uint64_t total, free, available, file_active, file_inactive;
	uint64_t slab_reclaimable, reclaimable;
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A node is the whole machine if no other has memory. */
static int is_whole(const char *root, int node, bool *ret_whole)
{
	static const char *const lists[] = { "has_memory", "online" };
	char path[PATH_MAX];
	struct gm_idset set;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		int rc = gm_read_file_path(path, sizeof(path), root,
					   NODE_DIR "/%s", lists[i]);

		if (rc < 0)
			return rc;
		rc = gm_read_file_list(path, &set);
		if (rc < 0)
			continue;
		*ret_whole = rc == 1 && gm_idset_has(&set, node);
		return 0;
	}
	*ret_whole = true; /* no NUMA in this kernel */
	return node == 0 ? 0 : -ENODEV;
}

/* One zone of the node, as the kernel's own sum counts it. */
static void add_zone(struct gm_meminfo *info, uint64_t managed, uint64_t low,
		     uint64_t high, uint64_t protection)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	info->reserve_bytes += least(managed, high + protection) * page;
	info->low_bytes += low * page;
}

/* The largest number of "(0, 2932, 5323)": what other zones may not take. */
static uint64_t most_of_list(const char *text)
{
	uint64_t n = 0;

	while (*text != '\0') {
		char *end;
		uint64_t v;

		text += strcspn(text, "0123456789");
		if (*text == '\0')
			break;
		v = strtoull(text, &end, 10);
		n = most(n, v);
		text = end;
	}
	return n;
}

/* Without zoneinfo nothing is kept back: a figure a little too kind. */
static void read_watermarks(struct gm_meminfo *info)
{
	uint64_t managed = 0, low = 0, high = 0;
	char path[PATH_MAX], *line = NULL;
	bool ours = false;
	size_t room = 0;
	FILE *file;

	if (gm_read_file_path(path, sizeof(path), info->root, "/proc/zoneinfo"))
		return;
	file = fopen(path, "re");
	if (!file)
		return;
	while (getline(&line, &room, file) > 0) {
		int node;

		if (sscanf(line, "Node %d, zone", &node) == 1) {
			ours = node == info->node;
			managed = low = high = 0;
		}
		if (!ours)
			continue;
		sscanf(line, " low %" SCNu64, &low);
		sscanf(line, " high %" SCNu64, &high);
		sscanf(line, " managed %" SCNu64, &managed);
		if (strstr(line, " protection:")) {
			/* The last of a zone's lines that we need. */
			add_zone(info, managed, low, high, most_of_list(line));
			ours = false;
		}
	}
	free(line);
	fclose(file);
}

int gm_meminfo_open(const char *root, int node, struct gm_meminfo *ret_info)
{
	struct gm_meminfo info = { .root = root, .node = node };
	char path[PATH_MAX];
	int rc = is_whole(root, node, &info.whole);

	if (rc < 0)
		return rc;
	if (!info.whole) {
		rc = gm_read_file_path(path, sizeof(path), root,
				       NODE_DIR "/node%d/meminfo", node);
		if (rc < 0)
			return rc;
		if (access(path, R_OK) < 0)
			return -ENODEV;
		read_watermarks(&info);
	}
	*ret_info = info;
	return 0;
}

static void read_line(const char *line, struct figures *f)
{
	const struct {
		const char *name;
		uint64_t *value;
	} wanted[] = {
		{ "MemTotal:", &f->total },
		{ "MemFree:", &f->free },
		{ "MemAvailable:", &f->available },
		{ "Active(file):", &f->file_active },
		{ "Inactive(file):", &f->file_inactive },
		{ "SReclaimable:", &f->slab_reclaimable },
		{ "KReclaimable:", &f->reclaimable },
	};
	int skip = 0;

	/* A node's lines begin with its name. */
	if (sscanf(line, "Node %*d %n", &skip) == 0)
		line += skip;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		size_t len = strlen(wanted[i].name);

		if (strncmp(line, wanted[i].name, len) != 0)
			continue;
		*wanted[i].value = strtoull(line + len, NULL, 10);
		f->seen_total |= wanted[i].value == &f->total;
	}
}

static uint64_t spare(uint64_t bytes, uint64_t low)
{
	return bytes - least(bytes / 2, low);
}

static uint64_t available_bytes(const struct gm_meminfo *info,
				const struct figures *f)
{
	uint64_t kernel = most(f->reclaimable, f->slab_reclaimable) << 10;
	uint64_t file = (f->file_active + f->file_inactive) << 10;
	uint64_t free = f->free << 10;

	if (f->available)
		return f->available << 10;
	free -= least(free, info->reserve_bytes);
	return free + spare(file, info->low_bytes) +
	       spare(kernel, info->low_bytes);
}

int gm_meminfo_read(const struct gm_meminfo *info, uint64_t *ret_total_bytes,
		    uint64_t *ret_free_bytes)
{
	char path[PATH_MAX], text[16384], *line, *rest = text;
	struct figures f = { 0 };
	int rc;

	if (info->whole)
		rc = gm_read_file_path(path, sizeof(path), info->root,
				       "/proc/meminfo");
	else
		rc = gm_read_file_path(path, sizeof(path), info->root,
				       NODE_DIR "/node%d/meminfo", info->node);
	if (rc < 0)
		return rc;
	rc = gm_read_file(path, text, sizeof(text));
	if (rc < 0)
		return rc;
	while ((line = strsep(&rest, "\n")))
		read_line(line, &f);
	if (!f.seen_total)
		return -EPROTO;
	*ret_total_bytes = f.total << 10;
	*ret_free_bytes = least(available_bytes(info, &f), f.total << 10);
	return 0;
}
