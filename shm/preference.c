/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "shm/preference.h"

#include <stddef.h>

static bool contains(struct gm_chars whole, struct gm_chars part)
{
	while (whole.n > part.n && !gm_chars_begins(whole, part))
		whole = gm_chars_behind(whole, 1);
	return gm_chars_begins(whole, part);
}

/* Find @c; the length of the text where it is not. */
static size_t find(struct gm_chars text, char c)
{
	size_t i = 0;

	while (i < text.n && text.at[i] != c)
		i++;
	return i;
}

/* As Rust reads a usize: digits, which a '+' may precede. */
static bool read_number(struct gm_chars text, uint64_t *ret)
{
	uint64_t value = 0;

	if (text.n > 0 && text.at[0] == '+')
		text = gm_chars_behind(text, 1);
	if (text.n == 0)
		return false;
	for (size_t i = 0; i < text.n; i++) {
		uint64_t digit = (uint64_t)(unsigned char)text.at[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*ret = value;
	return true;
}

static bool read_partition(struct gm_chars text, struct gm_preference *ret)
{
	static const char *const prefixes[] = { "mig:", "partition:" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		struct gm_chars prefix = gm_chars_of(prefixes[i]), id;

		if (!gm_chars_begins(text, prefix))
			continue;
		id = gm_chars_trim(gm_chars_behind(text, prefix.n));
		if (id.n == 0)
			continue;
		*ret = (struct gm_preference){ GM_PREFERENCE_PARTITION, id, 0 };
		return true;
	}
	return false;
}

static bool read_backend(struct gm_chars text, struct gm_preference *ret)
{
	size_t colon = find(text, ':');
	uint64_t id;

	if (colon == text.n ||
	    !read_number(gm_chars_trim(gm_chars_behind(text, colon + 1)), &id))
		return false;
	text.n = colon;
	*ret = (struct gm_preference){ GM_PREFERENCE_BACKEND,
				       gm_chars_trim(text), id };
	return true;
}

struct gm_preference gm_preference_parse(const char *spec)
{
	struct gm_chars text = gm_chars_trim(gm_chars_of(spec));
	struct gm_preference preference = { GM_PREFERENCE_NONE, text, 0 };

	if (text.n == 0 || read_partition(text, &preference) ||
	    read_backend(text, &preference))
		return preference;
	preference.kind = find(text, ':') < text.n && find(text, '.') < text.n
				  ? GM_PREFERENCE_PCI
				  : GM_PREFERENCE_NAME;
	return preference;
}

static bool is_called(const char *text, struct gm_chars name)
{
	return text && gm_chars_equal(gm_chars_of(text), name);
}

bool gm_preference_matches(const struct gm_preference *preference,
			   const struct gm_preference_device *device)
{
	switch (preference->kind) {
	case GM_PREFERENCE_NONE:
		break;
	case GM_PREFERENCE_PARTITION:
		return is_called(device->partition_id, preference->text);
	case GM_PREFERENCE_BACKEND:
		return device->id == preference->id && device->backend &&
		       gm_chars_equal(
			       gm_chars_trim(gm_chars_of(device->backend)),
			       preference->text);
	case GM_PREFERENCE_PCI:
		return is_called(device->pci_bus_id, preference->text);
	case GM_PREFERENCE_NAME:
		return device->name &&
		       contains(gm_chars_of(device->name), preference->text);
	}
	return false;
}
