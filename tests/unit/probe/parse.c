/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* probe's text: what NVML and the kernel's module write, and what they may. */

#include <errno.h>
#include <string.h>

#include "agent/probe/parse.h"
#include "tests/support/tap.h"

/* Escaped, for what is a trigraph otherwise. */
#define UNKNOWN \
	"\?\?\?\?\?\?\?\?-\?\?\?\?-\?\?\?\?-\?\?\?\?-\?\?\?\?\?\?\?\?\?\?\?\?"
#define UUID "8932f937-d72c-4106-c12f-20bd9faed9f6"

static void uuids_are_whole_or_nothing(void)
{
	static const char *const wrong[] = {
		"",
		"GPU-",
		UUID,
		"gpu-" UUID,
		"GPU-" UUID "0",
		"GPU-" UUID " ",
		"GPU-8932f937-d72c-4106-c12f-20bd9faed9f",
		"GPU-8932f937-d72c-4106-c12f-20bd9faed9g6",
		"GPU-8932f937d72c4106c12f20bd9faed9f6",
		"GPU-8932f93-7d72c-4106-c12f-20bd9faed9f6",
		"GPU-" UNKNOWN,
		"GPU-00000000-0000-0000-0000-000000000000",
		"MIG-GPU-" UUID "/1/0",
	};
	static const uint8_t want[16] = { 0x89, 0x32, 0xf9, 0x37, 0xd7, 0x2c,
					  0x41, 0x06, 0xc1, 0x2f, 0x20, 0xbd,
					  0x9f, 0xae, 0xd9, 0xf6 };
	uint8_t uuid[16];

	EQ(gm_parse_uuid("GPU-" UUID, uuid), 0);
	EQ(memcmp(uuid, want, 16), 0);
	memset(uuid, 0, sizeof(uuid));
	EQ(gm_parse_uuid("MIG-8932F937-D72C-4106-C12F-20BD9FAED9F6", uuid), 0);
	EQ(memcmp(uuid, want, 16), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (!EQ(gm_parse_uuid(wrong[i], uuid), -EINVAL))
			NOTE("%s", wrong[i]);
		EQ(memcmp(uuid, want, 16), 0);
	}
}

static void addresses_are_numbers(void)
{
	static const struct {
		const char *text;
		int rc;
		uint32_t domain, bus;
	} cases[] = {
		{ "0000:17:00.0", 0, 0, 0x1700 },
		{ "00000000:17:00.0", 0, 0, 0x1700 },
		{ "00010000:E1:1F.7", 0, 0x10000, 0xe1ff },
		{ "ffffffff:ff:1f.7", 0, 0xffffffff, 0xffff },
		{ "17:00.0", 0, 0, 0x1700 },
		{ "0:1:2.3", 0, 0, 0x0113 },
		{ "", -EINVAL, 0, 0 },
		{ "17:00", -EINVAL, 0, 0 },
		{ "17:00.", -EINVAL, 0, 0 },
		{ "17:00.8", -EINVAL, 0, 0 },
		{ "17:20.0", -EINVAL, 0, 0 },
		{ "117:00.0", -EINVAL, 0, 0 },
		{ "000000000:17:00.0", -EINVAL, 0, 0 },
		{ ":17:00.0", -EINVAL, 0, 0 },
		{ "0000:17:00.0 ", -EINVAL, 0, 0 },
		{ "0000:17:00.00", -EINVAL, 0, 0 },
		{ "0000:0000:17:00.0", -EINVAL, 0, 0 },
		{ "-1:17:00.0", -EINVAL, 0, 0 },
		{ "..", -EINVAL, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t domain = 0, bus = 0;

		if (!EQ(gm_parse_pci(cases[i].text, &domain, &bus),
			cases[i].rc))
			NOTE("%s", cases[i].text);
		EQ(domain, cases[i].domain);
		EQ(bus, cases[i].bus);
	}
}

static void drivers_are_two_numbers(void)
{
	EQ(gm_parse_driver("580.65.06"), 580065);
	EQ(gm_parse_driver("550.163.01"), 550163);
	EQ(gm_parse_driver("535.161.08"), 535161);
	EQ(gm_parse_driver("535.261.03"), 535261);
	EQ(gm_parse_driver("525.60"), 525060);
	EQ(gm_parse_driver("595"), 595000);
	EQ(gm_parse_driver("595.1234"), 595999);
	EQ(gm_parse_driver(""), 0);
	EQ(gm_parse_driver("N/A"), 0);
	EQ(gm_parse_driver("99999999999.1"), 0);
}

static void copies_end_and_can_be_printed(void)
{
	char text[8], profile[16];

	gm_parse_copy(text, sizeof(text), "  ab\tc\x80  ", 20);
	STR(text, "ab?c?");
	gm_parse_copy(text, sizeof(text), "0123456789", 10);
	STR(text, "0123456");
	/* No end of its own. */
	gm_parse_copy(text, sizeof(text), "abcdef", 3);
	STR(text, "abc");
	gm_parse_copy(text, sizeof(text), "", 0);
	STR(text, "");
	gm_parse_copy(text, 1, "abc", 3);
	STR(text, "");
	gm_parse_profile("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", profile,
			 sizeof(profile));
	STR(profile, "1g.10gb+me");
	gm_parse_profile("NVIDIA H100", profile, sizeof(profile));
	STR(profile, "");
}

static void the_modules_file_is_read_line_by_line(void)
{
	struct gm_parse_information info;

	gm_parse_information("Model: \t\t NVIDIA H200\nIRQ:   \t\t 33\n"
			     "GPU UUID: \t GPU-" UUID "\n"
			     "Bus Location: \t 0000:17:00.0\n"
			     "Device Minor: \t 4\nGPU Excluded:\t No\n",
			     &info);
	STR(info.id, "GPU-" UUID);
	EQ(info.uuid[0], 0x89);
	EQ(info.minor, 4);
	/* Before the card has been up once. */
	gm_parse_information("GPU UUID: \t GPU-" UNKNOWN "\n"
			     "Device Minor: 12",
			     &info);
	STR(info.id, "");
	EQ(info.minor, 12);
	gm_parse_information("Device Minor: \n7\n", &info);
	EQ(info.minor, -1);
	gm_parse_information("The GPU UUID: GPU-" UUID, &info);
	STR(info.id, "");
	gm_parse_information("Device Minor: 99999999999999999999", &info);
	EQ(info.minor, -1);
	gm_parse_information("", &info);
	EQ(info.minor, -1);
}

static void made_uuids_are_nobodys(void)
{
	uint8_t by_place[16], other[16];

	gm_parse_made_uuid(0, 0x1700, by_place);
	gm_parse_made_uuid(0, 0x1708, other);
	OK(memcmp(by_place, other, 16) != 0);
	gm_parse_made_uuid(1, 0x1700, other);
	OK(memcmp(by_place, other, 16) != 0);
	gm_parse_made_uuid(0, 0x1700, other);
	EQ(memcmp(by_place, other, 16), 0);
	EQ(by_place[6] >> 4, 8);
	EQ(by_place[8] >> 6, 2);
}

TAP_CASE()
{
	uuids_are_whole_or_nothing();
	addresses_are_numbers();
	drivers_are_two_numbers();
	copies_end_and_can_be_printed();
	the_modules_file_is_read_line_by_line();
	made_uuids_are_nobodys();
	return tap_done();
}
