/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* identity: SipHash as published, and rows that differ. */

#include "agent/daemon/devices/uuid.h"
#include "tests/support/tap.h"

/* The example of the paper: key 00 .. 0f, message 00 .. 0e. */
static void hash_is_siphash(void)
{
	uint8_t key[16], message[15];

	for (uint8_t i = 0; i < 16; i++)
		key[i] = i;
	for (uint8_t i = 0; i < 15; i++)
		message[i] = i;
	OK(gm_uuid_hash(key, message, 15) == UINT64_C(0xa129ca6149be45e5));
	OK(gm_uuid_hash(key, message, 0) == UINT64_C(0x726fdb47dd0e0e31));
	OK(gm_uuid_hash(key, message, 8) == UINT64_C(0x93f5f5799a932462));
}

static void rows_differ_and_stay(void)
{
	static const uint8_t key[16] = { 1 }, other[16] = { 2 };
	uint8_t a[16], b[16];

	gm_uuid_host(key, 0, 0, 2, a);
	gm_uuid_host(key, 0, 0, 2, b);
	EQ(memcmp(a, b, 16), 0);
	EQ(a[6] >> 4, 8);
	EQ(a[8] >> 6, 2);
	gm_uuid_host(key, 0, 1, 2, b);
	OK(memcmp(a, b, 16) != 0);
	gm_uuid_host(key, 1, 0, 2, b);
	OK(memcmp(a, b, 16) != 0);
	gm_uuid_host(key, 0, 0, 1, b);
	OK(memcmp(a, b, 16) != 0);
	gm_uuid_host(other, 0, 0, 2, b);
	OK(memcmp(a, b, 16) != 0);
}

static void dummies_differ_and_stay(void)
{
	static const uint8_t key[16] = { 1 };
	static const struct {
		const char *node, *row;
		uint32_t index;
	} others[] = {
		{ "dgx", "H100", 1 },   { "dgx", "H200", 0 }, { "", "H100", 0 },
		{ "dgx", "H100 0", 0 }, { "dg", "xH100", 0 },
	};
	uint8_t a[16], b[16];

	gm_uuid_dummy(key, "dgx", "H100", 0, a);
	gm_uuid_dummy(key, "dgx", "H100", 0, b);
	EQ(memcmp(a, b, 16), 0);
	EQ(a[6] >> 4, 8);
	EQ(a[8] >> 6, 2);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		gm_uuid_dummy(key, others[i].node, others[i].row,
			      others[i].index, b);
		OK(memcmp(a, b, 16) != 0);
	}
}

static void nameless_differ(void)
{
	uint8_t a[16], b[16];

	gm_uuid_nameless(1, a);
	gm_uuid_nameless(2, b);
	OK(memcmp(a, b, 16) != 0);
	gm_uuid_nameless(1, b);
	EQ(memcmp(a, b, 16), 0);
	EQ(a[6] >> 4, 8);
	EQ(a[8] >> 6, 2);
}

TAP_CASE()
{
	hash_is_siphash();
	rows_differ_and_stay();
	dummies_differ_and_stay();
	nameless_differ();
	return tap_done();
}
