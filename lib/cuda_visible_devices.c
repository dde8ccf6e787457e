/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/cuda_visible_devices.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The first driver that enumerates MIG instances beside others: R570. */
#define MANY_MIG_VERSION 12080u

#define PREFIX_BYTES     4u /* "GPU-", "MIG-" */
#define UUID_CHARS       36u

_Static_assert(GM_VISIBLE_NAME == PREFIX_BYTES + UUID_CHARS + 1, "names");

/* A number that no device has: parsing goes on, and the search finds
 * nothing. */
#define NO_NUMBER UINT32_MAX

struct devices {
	uint32_t n;
	const struct gm_visible_device *at[GPUMAP_ROWS_MAX];
};

struct resolver {
	bool many_mig;
	/* devices that can be opened, in the order in use */
	struct devices open;
	struct devices slots; /* the devices that ordinals count */
	struct devices taken;
};

/* Sorts of entries. */
enum sort { ORDINAL, GPU_NAME, MIG_NAME };

static bool is_mig(const struct gm_visible_device *d)
{
	return d->mig_gi >= 0;
}

/* The UUID of the GPU that a device is, or is a part of. */
static const uint8_t *gpu_of(const struct gm_visible_device *d)
{
	return is_mig(d) ? d->parent : d->uuid;
}

static bool same_gpu(const struct gm_visible_device *a,
		     const struct gm_visible_device *b)
{
	return memcmp(gpu_of(a), gpu_of(b), sizeof(a->uuid)) == 0;
}

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* An unknown place comes after all known ones: as unsigned, -1 is the
 * largest. */
static int compare_devices(const struct gm_visible_device *a,
			   const struct gm_visible_device *b, uint32_t order)
{
	int by = 0;

	if (order == GM_VISIBLE_FASTEST_FIRST)
		by = compare((uint32_t)a->fastest, (uint32_t)b->fastest);
	if (!by)
		by = compare(a->pci_domain, b->pci_domain);
	if (!by)
		by = compare(a->pci_bus, b->pci_bus);
	if (!by)
		by = compare((uint32_t)a->mig_gi, (uint32_t)b->mig_gi);
	if (!by)
		by = compare((uint32_t)a->mig_ci, (uint32_t)b->mig_ci);
	return by;
}

/* List the devices that the driver could enumerate, sorted by insertion. */
static void open_devices(const struct gm_visible_node *node,
			 struct devices *ret_open)
{
	ret_open->n = 0;
	for (uint32_t i = 0; i < node->n_devices; i++) {
		const struct gm_visible_device *d = &node->devices[i];
		uint32_t at = ret_open->n;

		if (d->flags & (GM_VISIBLE_CLOSED | GM_VISIBLE_SPLIT))
			continue;
		for (; at > 0; at--) {
			const struct gm_visible_device *before =
				ret_open->at[at - 1];

			if (compare_devices(before, d, node->order) <= 0)
				break;
			ret_open->at[at] = before;
		}
		ret_open->at[at] = d;
		ret_open->n++;
	}
}

static bool same_gpu_instance(const struct gm_visible_device *a,
			      const struct gm_visible_device *b)
{
	return is_mig(a) && is_mig(b) && same_gpu(a, b) &&
	       a->mig_gi == b->mig_gi;
}

/*
 * Ordinals count each whole GPU and, of a split GPU, its first instance, or
 * (many_mig) the first of each GPU instance.
 */
static void make_slots(struct resolver *r)
{
	r->slots.n = 0;
	for (uint32_t i = 0; i < r->open.n; i++) {
		const struct gm_visible_device *d = r->open.at[i];
		const struct gm_visible_device *last =
			i ? r->open.at[i - 1] : NULL;

		if (last && (r->many_mig ? same_gpu_instance(d, last)
					 : same_gpu(d, last)))
			continue;
		r->slots.at[r->slots.n++] = d;
	}
}

void gm_visible_name(const char prefix[4], const uint8_t uuid[16],
		     char ret_name[GM_VISIBLE_NAME])
{
	char *to = ret_name + PREFIX_BYTES;

	memcpy(ret_name, prefix, PREFIX_BYTES);
	for (int i = 0; i < 16; i++) {
		static const char digits[] = "0123456789abcdef";

		if (i == 4 || i == 6 || i == 8 || i == 10)
			*to++ = '-';
		*to++ = digits[uuid[i] >> 4];
		*to++ = digits[uuid[i] & 15];
	}
	*to = '\0';
}

/* Are the @n bytes of @text the beginning of the device's name? */
static bool begins(const char *text, size_t n, const char *prefix,
		   const uint8_t uuid[16])
{
	char name[GM_VISIBLE_NAME];

	gm_visible_name(prefix, uuid, name);
	return n < sizeof(name) && memcmp(name, text, n) == 0;
}

/* Digits at *text, which moves behind them; NO_NUMBER where it is too large. */
static uint32_t read_digits(const char **text, const char *end)
{
	uint64_t value = 0;

	for (; *text < end && **text >= '0' && **text <= '9'; (*text)++) {
		if (value < NO_NUMBER)
			value = value * 10 + (uint64_t)(**text - '0');
	}
	return value < NO_NUMBER ? (uint32_t)value : NO_NUMBER;
}

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Read as strtol does: anything behind the digits is ignored. */
static uint32_t find_ordinal(const struct resolver *r, const char *text,
			     const char *end,
			     const struct gm_visible_device **ret_device)
{
	bool minus = false;
	const char *digits;
	uint32_t k;

	while (text < end && is_blank(*text))
		text++;
	if (text < end && (*text == '-' || *text == '+'))
		minus = *text++ == '-';
	digits = text;
	k = read_digits(&text, end);
	if (text == digits || (minus && k) || k >= r->slots.n)
		return GM_VISIBLE_UNKNOWN;
	*ret_device = r->slots.at[k];
	return GM_VISIBLE_COMPLETE;
}

/* "/GI/CI" to the end. */
static bool read_instance(const char *text, const char *end, uint32_t *ret_gi,
			  uint32_t *ret_ci)
{
	uint32_t *to[] = { ret_gi, ret_ci };

	for (int i = 0; i < 2; i++) {
		const char *digits;

		if (text == end || *text++ != '/')
			return false;
		digits = text;
		*to[i] = read_digits(&text, end);
		if (text == digits)
			return false;
	}
	return text == end;
}

/* The one GPU whose name begins with @text; a split GPU's first instance. */
static uint32_t find_gpu(const struct resolver *r, const char *text, size_t n,
			 const struct gm_visible_device **ret_device)
{
	const struct gm_visible_device *found = NULL;

	for (uint32_t i = 0; i < r->open.n; i++) {
		const struct gm_visible_device *d = r->open.at[i];

		if (!begins(text, n, "GPU-", gpu_of(d)))
			continue;
		if (found && !same_gpu(d, found))
			return GM_VISIBLE_AMBIGUOUS;
		if (!found)
			found = d;
	}
	if (!found)
		return GM_VISIBLE_UNKNOWN;
	*ret_device = found;
	return GM_VISIBLE_COMPLETE;
}

static uint32_t find_mig(const struct resolver *r, const char *text,
			 const char *end,
			 const struct gm_visible_device **ret_device)
{
	const char *slash = memchr(text, '/', (size_t)(end - text));
	const char *name_end = slash ? slash : end;
	const char *gpu = text + PREFIX_BYTES;
	size_t gpu_n = (size_t)(name_end - gpu), n = (size_t)(name_end - text);
	bool by_gpu = gpu_n >= PREFIX_BYTES && memcmp(gpu, "GPU-", 4) == 0;
	const struct gm_visible_device *found = NULL;
	uint32_t gi = 0, ci = 0;

	if (by_gpu ? !read_instance(name_end, end, &gi, &ci) : slash != NULL)
		return GM_VISIBLE_UNKNOWN;
	for (uint32_t i = 0; i < r->open.n; i++) {
		const struct gm_visible_device *d = r->open.at[i];

		if (!is_mig(d))
			continue;
		if (by_gpu ? (uint32_t)d->mig_gi != gi ||
				     (uint32_t)d->mig_ci != ci ||
				     !begins(gpu, gpu_n, "GPU-", d->parent)
			   : !begins(text, n, "MIG-", d->uuid))
			continue;
		if (found)
			return GM_VISIBLE_AMBIGUOUS;
		found = d;
	}
	if (!found)
		return GM_VISIBLE_UNKNOWN;
	*ret_device = found;
	return GM_VISIBLE_COMPLETE;
}

static enum sort sort_of(const char *text, const char *end)
{
	if (end - text >= (ptrdiff_t)PREFIX_BYTES) {
		if (memcmp(text, "GPU-", PREFIX_BYTES) == 0)
			return GPU_NAME;
		if (memcmp(text, "MIG-", PREFIX_BYTES) == 0)
			return MIG_NAME;
	}
	return ORDINAL;
}

static uint32_t find(const struct resolver *r, enum sort sort, const char *text,
		     const char *end,
		     const struct gm_visible_device **ret_device)
{
	switch (sort) {
	case GPU_NAME:
		return find_gpu(r, text, (size_t)(end - text), ret_device);
	case MIG_NAME:
		return find_mig(r, text, end, ret_device);
	case ORDINAL:
		break;
	}
	return find_ordinal(r, text, end, ret_device);
}

/* Take one entry, or say what ends the list. */
static uint32_t take(struct resolver *r, enum sort first, const char *text,
		     const char *end)
{
	enum sort sort = sort_of(text, end);
	const struct gm_visible_device *device = NULL;
	uint32_t stop;

	if (sort != first &&
	    (!r->many_mig || sort == ORDINAL || first == ORDINAL))
		return GM_VISIBLE_MIXED;
	stop = find(r, sort, text, end, &device);
	if (stop)
		return stop;
	for (uint32_t i = 0; i < r->taken.n; i++) {
		if (r->taken.at[i] != device)
			continue;
		r->taken.n = 0;
		return GM_VISIBLE_REPEATED;
	}
	r->taken.at[r->taken.n++] = device;
	return GM_VISIBLE_COMPLETE;
}

static void take_list(struct resolver *r, const char *text,
		      struct gm_visible_list *list)
{
	const char *entry = text;
	enum sort first = sort_of(text, text + strcspn(text, ","));

	if (!*text)
		return;
	for (;;) {
		const char *end = entry + strcspn(entry, ",");

		list->stop = take(r, first, entry, end);
		if (list->stop) {
			list->at = (uint32_t)(entry - text);
			return;
		}
		if (!*end)
			return;
		entry = end + 1;
	}
}

/*
 * Does the device keep its place?  Before 12.8 a list with MIG instances makes
 * only the first of them visible; later, it makes the first of each GPU
 * instance visible.
 */
static bool is_kept(const struct resolver *r, uint32_t i, uint32_t first_mig)
{
	const struct devices *taken = &r->taken;

	if (!r->many_mig)
		return first_mig == taken->n || i == first_mig;
	for (uint32_t k = 0; k < i; k++) {
		if (same_gpu_instance(taken->at[k], taken->at[i]))
			return false;
	}
	return true;
}

static void give(const struct resolver *r, struct gm_visible_list *list)
{
	const struct devices *taken = &r->taken;
	uint32_t first_mig = 0;

	while (first_mig < taken->n && !is_mig(taken->at[first_mig]))
		first_mig++;
	for (uint32_t i = 0; i < taken->n; i++) {
		if (is_kept(r, i, first_mig))
			list->rows[list->n++] = taken->at[i]->row;
		else
			list->n_dropped++;
	}
}

struct gm_visible_device gm_visible_of(const struct gpumap_device *device)
{
	bool is_split =
		device->mig_gi < 0 && (device->flags & GPUMAP_DEVICE_MIG) != 0;
	struct gm_visible_device visible = {
		.row = device->row,
		.flags = is_split ? GM_VISIBLE_SPLIT : 0,
		.mig_gi = device->mig_gi,
		.mig_ci = device->mig_ci,
		.fastest = device->ordinal_fastest,
		.pci_domain = device->pci_domain,
		.pci_bus = device->pci_bus,
	};

	memcpy(visible.uuid, device->uuid, sizeof(visible.uuid));
	return visible;
}

void gm_visible_pair(struct gm_visible_device *devices, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct gm_visible_device *d = &devices[i];

		if (d->mig_gi < 0)
			continue;
		memcpy(d->parent, &d->pci_domain, sizeof(d->pci_domain));
		memcpy(d->parent + 4, &d->pci_bus, sizeof(d->pci_bus));
		for (uint32_t k = 0; k < n; k++) {
			const struct gm_visible_device *card = &devices[k];

			if (card->mig_gi >= 0 ||
			    card->pci_domain != d->pci_domain ||
			    card->pci_bus != d->pci_bus)
				continue;
			memcpy(d->parent, card->uuid, sizeof(d->parent));
			d->fastest = card->fastest;
		}
	}
}

uint32_t gm_visible_order(const char *text)
{
	if (text && strcmp(text, "PCI_BUS_ID") == 0)
		return GM_VISIBLE_PCI_BUS_ID;
	return GM_VISIBLE_FASTEST_FIRST;
}

int gm_visible_resolve(const struct gm_visible_node *node, const char *text,
		       struct gm_visible_list *ret_list)
{
	struct resolver r = { .many_mig =
				      node->cuda_version >= MANY_MIG_VERSION };
	struct gm_visible_list list = { 0 };

	if (node->n_devices > GPUMAP_ROWS_MAX)
		return -EINVAL;
	open_devices(node, &r.open);
	make_slots(&r);
	if (text)
		take_list(&r, text, &list);
	else
		r.taken = r.slots;
	give(&r, &list);
	*ret_list = list;
	return 0;
}

const char *gm_visible_stop_text(uint32_t stop)
{
	static const char *const texts[] = {
		[GM_VISIBLE_COMPLETE] = "every entry names a device",
		[GM_VISIBLE_UNKNOWN] = "an entry names no device that can be "
				       "opened here; CUDA ignores it and all "
				       "behind it",
		[GM_VISIBLE_AMBIGUOUS] = "an entry is the beginning of more "
					 "than one UUID; write more digits",
		[GM_VISIBLE_MIXED] = "an entry is of another sort than the "
				     "first; write ordinals or UUIDs, not both",
		[GM_VISIBLE_REPEATED] = "a device is named twice; CUDA then "
					"shows none",
	};

	if (stop >= sizeof(texts) / sizeof(texts[0]))
		return "no such answer";
	return texts[stop];
}
