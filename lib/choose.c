/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Choose devices by what a program needs. */

#include "lib/cuda_visible_devices.h"
#include "lib/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shm/device_kinds.h"
#include "shm/preference.h"
#include "shm/rows.h"
#include "shm/version.h"

/* The needs that a row may fail, in the order in which they are checked. */
enum lack { SERVICE, PREFERENCE, CAPABILITY, CUDA, TOTAL, FREE, LACKS };

struct candidate {
	uint32_t row;
	bool is_last; /* a host row, or a dummy that represents one */
	double key;
	uint64_t tie;
};

/* ---- names --------------------------------------------------------------- */

#define NUMBER_TEXT 24

/* Rows of the device's kind that come before it. */
static int64_t count_before(const struct gpumap *map,
			    const struct gpumap_device *d)
{
	struct gm_row_image facts;
	int64_t n = 0;

	for (uint32_t row = 0; row < d->row; row++)
		n += gm_rows_facts(&map->map, row, &facts) == 0 &&
		     facts.kind == d->kind;
	return n;
}

/* A device's kind, and its number among those of the kind; NULL where it has
 * none. */
static const char *kind_of(const struct gpumap *map,
			   const struct gpumap_device *d, uint64_t *ret_id)
{
	int64_t id = d->row;

	if (d->kind == GPUMAP_DEVICE_HIP || d->kind == GPUMAP_DEVICE_OPENCL ||
	    d->kind == GPUMAP_DEVICE_VULKAN)
		id = count_before(map, d);
	else if ((d->flags & GPUMAP_DEVICE_CARD) != 0)
		id = d->nvml_index;
	else if ((d->flags & GPUMAP_DEVICE_SERVES) != 0)
		id = (d->known & GPUMAP_KNOWN_NUMA) != 0 ? d->numa_node : -1;
	*ret_id = (uint64_t)id;
	return id >= 0 ? gm_device_kind(d->kind)->name : NULL;
}

static bool is_preferred(const struct gpumap *map, const char *spec,
			 const struct gpumap_device *d)
{
	struct gm_preference preference = gm_preference_parse(spec);
	char uuid[GM_VISIBLE_NAME], pci[2][NUMBER_TEXT];
	struct gm_preference_device device = { .name = d->name };

	if (preference.kind == GM_PREFERENCE_NONE)
		return true;
	device.backend = kind_of(map, d, &device.id);
	gm_visible_name(d->mig_gi >= 0 ? "MIG-" : "GPU-", d->uuid, uuid);
	/* sysfs pads the domain to four digits, nvidia-smi to eight; a UUID may
	 * stand without the prefix. */
	for (int i = 0; i < 2; i++) {
		snprintf(pci[i], sizeof(pci[i]), "%0*x:%02x:%02x.%x",
			 i == 0 ? 4 : 8, d->pci_domain, d->pci_bus >> 8 & 0xff,
			 d->pci_bus >> 3 & 0x1f, d->pci_bus & 7);
		if ((d->known & GPUMAP_KNOWN_PCI) != 0)
			device.pci_bus_id = pci[i];
		device.partition_id = i == 0 ? uuid : uuid + 4;
		if (gm_preference_matches(&preference, &device))
			return true;
		if (d->kind == GPUMAP_DEVICE_HIP)
			device.backend = "rocm"; /* its other name */
		if (preference.kind == GM_PREFERENCE_NAME &&
		    gm_chars_equal(preference.text,
				   gm_chars_of(device.partition_id)))
			return true;
	}
	return false;
}

/* ---- needs --------------------------------------------------------------- */

static bool in_service(const struct gpumap_device *d)
{
	bool is_split = (d->flags & GPUMAP_DEVICE_MIG) != 0 && d->mig_gi < 0;

	return d->state == GPUMAP_DEVICE_READY && !is_split &&
	       (d->flags & GPUMAP_DEVICE_CORDONED) == 0;
}

static bool reaches(uint32_t major, uint32_t minor, const char *least)
{
	char text[NUMBER_TEXT];

	snprintf(text, sizeof(text), "%u.%u", major, minor);
	return gm_version_reaches(text, least);
}

static uint64_t unreserved(const struct gpumap_device *d)
{
	return d->free_bytes > d->reserved_bytes
		       ? d->free_bytes - d->reserved_bytes
		       : 0;
}

/* The first need that a device does not meet; LACKS: it meets all. */
static enum lack first_lack(const struct gpumap *map,
			    const struct gpumap_choice *c,
			    const struct gpumap_device *d)
{
	if (!in_service(d))
		return SERVICE;
	if (c->prefer != NULL && !is_preferred(map, c->prefer, d))
		return PREFERENCE;
	if (c->compute_capability != NULL &&
	    ((d->known & GPUMAP_KNOWN_CC) == 0 ||
	     !reaches(d->cc_major, d->cc_minor, c->compute_capability)))
		return CAPABILITY;
	if (c->cuda_version != NULL &&
	    (d->cuda_version == 0 ||
	     !reaches(d->cuda_version / 1000, d->cuda_version % 1000 / 10,
		      c->cuda_version)))
		return CUDA;
	if (d->total_bytes < c->total_bytes)
		return TOTAL;
	return unreserved(d) < c->free_bytes ? FREE : LACKS;
}

static int none_meets(const struct gpumap *map, const uint32_t counts[LACKS])
{
	static const char *const texts[LACKS] = {
		[SERVICE] = "not in service",
		[PREFERENCE] = "not the preferred one",
		[CAPABILITY] = "of a lower compute capability",
		[CUDA] = "of a lower CUDA version",
		[TOTAL] = "too small",
		[FREE] = "too full",
	};
	const char *separator = ":";
	char why[GM_WHY];
	size_t used = 0;

	why[0] = '\0';
	for (int i = 0; i < LACKS; i++) {
		if (counts[i] == 0)
			continue;
		used += (size_t)snprintf(why + used, sizeof(why) - used,
					 "%s %u %s", separator, counts[i],
					 texts[i]);
		separator = ",";
	}
	return gm_refuse(map, -ENODEV, "no row meets the needs%s", why);
}

/* ---- order --------------------------------------------------------------- */

static struct candidate rate(const struct gpumap_device *d, uint32_t by)
{
	struct candidate c = {
		.row = d->row,
		.is_last = (d->flags & GPUMAP_DEVICE_MAIN_MEMORY) != 0,
	};
	uint32_t used = d->utilisation < 1000 ? d->utilisation : 1000;

	switch (by) {
	case GPUMAP_CHOOSE_FREE_MEMORY:
		c.key = (double)unreserved(d);
		break;
	case GPUMAP_CHOOSE_FREE_COMPUTE:
		if ((d->known & GPUMAP_KNOWN_UTILISATION) == 0)
			used = 0;
		c.key = d->score * (1000 - used) / 1000;
		break;
	default:
		c.key = (double)d->total_bytes;
		c.tie = (uint64_t)d->cc_major << 32 | d->cc_minor;
	}
	return c;
}

/* The NaN that a damaged map may have is better than none. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
	if (a->is_last != b->is_last)
		return b->is_last;
	if (a->key != b->key)
		return a->key > b->key;
	return a->tie > b->tie;
}

/* Insert behind all that are as good. */
static void insert(struct candidate *list, uint32_t n, struct candidate c)
{
	for (; n > 0 && is_better(&c, &list[n - 1]); n--)
		list[n] = list[n - 1];
	list[n] = c;
}

static int check(const struct gpumap *map, const struct gpumap_choice *c)
{
	const char *versions[] = { c->compute_capability, c->cuda_version };

	if (c->by > GPUMAP_CHOOSE_FREE_COMPUTE)
		return gm_refuse(map, -EINVAL, "by is none of GPUMAP_CHOOSE_*");
	for (int i = 0; i < 2; i++)
		if (versions[i] != NULL && !gm_version_valid(versions[i]))
			return gm_refuse(map, -EINVAL,
					 "\"%.40s\" is no version: give one "
					 "such as 12.4",
					 versions[i]);
	if (c->rows != NULL && c->n_rows > GPUMAP_ROWS_MAX)
		return gm_refuse(map, -EINVAL, "n_rows is more than %u",
				 GPUMAP_ROWS_MAX);
	return 0;
}

int gpumap_device_choose(const struct gpumap *map,
			 const struct gpumap_choice *choice, uint32_t *ret_rows,
			 size_t n)
{
	struct candidate list[GPUMAP_ROWS_MAX];
	uint32_t counts[LACKS + 1] = { 0 }, n_rows = gpumap_device_count(map);
	struct gpumap_choice c;
	int ret = gm_map_size_in(map, &c, sizeof(c), choice);

	if (ret == 0)
		ret = check(map, &c);
	if (ret != 0)
		return ret;
	if (c.rows != NULL)
		n_rows = c.n_rows;
	for (uint32_t i = 0; i < n_rows; i++) {
		struct gpumap_device d = { .size = sizeof(d) };
		uint32_t row = c.rows != NULL ? c.rows[i] : i;
		enum lack lack;

		ret = gpumap_device_read(map, row, &d);
		if (ret == -ENODEV && c.rows == NULL)
			continue; /* it is being given out */
		if (ret == -ENODEV)
			return gm_refuse(map, ret, "there is no row %u", row);
		if (ret != 0)
			return gm_refuse_plain(map, ret);
		if (c.rows == NULL && (d.flags & GPUMAP_DEVICE_SERVES) == 0)
			continue;
		lack = first_lack(map, &c, &d);
		if (lack == LACKS)
			insert(list, counts[LACKS], rate(&d, c.by));
		counts[lack]++;
	}
	if (counts[LACKS] == 0)
		return none_meets(map, counts);
	for (uint32_t i = 0; i < counts[LACKS] && i < n; i++)
		ret_rows[i] = list[i].row;
	gm_map_refuse(map, "");
	return (int)counts[LACKS];
}
