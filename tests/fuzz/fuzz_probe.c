/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Text that NVML and the kernel's module write about cards.
 *
 *	byte 0	how many bytes a copy has room for
 *	then	the text, which does not end
 */

#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "agent/probe/parse.h"

static void check_copy(const uint8_t *data, size_t size, size_t room)
{
	char *copy = malloc(room);

	MUST(copy);
	gm_parse_copy(copy, room, (const char *)data, size);
	MUST(strlen(copy) < room);
	for (const char *c = copy; *c; c++)
		MUST(*c >= ' ' && *c <= '~');
	free(copy);
}

static void check_names(const char *text)
{
	struct gm_parse_information info;
	uint32_t domain = 7, bus = 7;
	uint8_t uuid[16] = { 7 }, again[16];
	char profile[32];
	int rc;

	rc = gm_parse_uuid(text, uuid);
	MUST(rc == 0 || (rc == -EINVAL && uuid[0] == 7));
	rc = gm_parse_pci(text, &domain, &bus);
	MUST(rc == 0 || (rc == -EINVAL && domain == 7 && bus == 7));
	if (rc == 0) {
		MUST(bus <= 0xffff);
		gm_parse_made_uuid(domain, bus, uuid);
		MUST(uuid[6] >> 4 == 8);
	}
	MUST(gm_parse_driver(text) < 100000u * 1000 + 1000);
	gm_parse_profile(text, profile, sizeof(profile));
	MUST(strlen(profile) < sizeof(profile));
	gm_parse_information(text, &info);
	MUST(info.minor >= -1);
	/* A name is given that is one, or none. */
	if (info.id[0]) {
		MUST(gm_parse_uuid(info.id, again) == 0);
		MUST(memcmp(again, info.uuid, sizeof(again)) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 1)
		return 0;
	check_copy(data + 1, size - 1, data[0] + 1u);
	text = strndup((const char *)data + 1, size - 1);
	MUST(text);
	check_names(text);
	free(text);
	return 0;
}
