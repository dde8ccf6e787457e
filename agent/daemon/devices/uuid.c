/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/devices/uuid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/read_file.h"

#define MACHINE_ID "/etc/machine-id"
#define ID_DIGITS  32

static uint64_t turn(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static uint64_t little(const uint8_t *bytes, size_t n)
{
	uint64_t word = 0;

	for (size_t i = 0; i < n; i++)
		word |= (uint64_t)bytes[i] << 8 * i;
	return word;
}

static void mix(uint64_t v[4], int rounds)
{
	while (rounds-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = turn(v[1], 13) ^ v[0];
		v[3] = turn(v[3], 16) ^ v[2];
		v[0] = turn(v[0], 32) + v[3];
		v[2] += v[1];
		v[3] = turn(v[3], 21) ^ v[0];
		v[1] = turn(v[1], 17) ^ v[2];
		v[2] = turn(v[2], 32);
	}
}

uint64_t gm_uuid_hash(const uint8_t key[16], const void *data, size_t bytes)
{
	const uint8_t *at = data;
	uint64_t k0 = little(key, 8), k1 = little(key + 8, 8);
	uint64_t v[4] = { k0 ^ UINT64_C(0x736f6d6570736575),
			  k1 ^ UINT64_C(0x646f72616e646f6d),
			  k0 ^ UINT64_C(0x6c7967656e657261),
			  k1 ^ UINT64_C(0x7465646279746573) };
	uint64_t word;

	for (size_t left = bytes; left >= 8; left -= 8, at += 8) {
		word = little(at, 8);
		v[3] ^= word;
		mix(v, 2);
		v[0] ^= word;
	}
	word = little(at, bytes % 8) | (uint64_t)bytes << 56;
	v[3] ^= word;
	mix(v, 2);
	v[0] ^= word;
	v[2] ^= 0xff;
	mix(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Big-endian, as the digits of a UUID are read. */
static void spell(uint64_t word, uint8_t ret_bytes[8])
{
	for (int i = 0; i < 8; i++)
		ret_bytes[i] = (uint8_t)(word >> (56 - 8 * i));
}

static int parse_id(const char *text, uint8_t ret_key[16])
{
	if (strspn(text, "0123456789abcdefABCDEF") != ID_DIGITS)
		return -1;
	for (int i = 0; i < 2; i++) {
		char half[ID_DIGITS / 2 + 1] = { 0 };

		memcpy(half, text + i * ID_DIGITS / 2, ID_DIGITS / 2);
		spell(strtoull(half, NULL, 16), ret_key + 8 * i);
	}
	return 0;
}

void gm_uuid_key(uint8_t ret_key[16])
{
	static const uint8_t zero[16];
	char text[256];
	size_t n;

	if (gm_read_file(MACHINE_ID, text, sizeof(text)) > 0 &&
	    parse_id(text, ret_key) == 0)
		return;
	memset(text, 0, sizeof(text));
	gethostname(text, sizeof(text) - 2);
	n = strlen(text);
	spell(gm_uuid_hash(zero, text, n), ret_key);
	text[n] = '1';
	spell(gm_uuid_hash(zero, text, n + 1), ret_key + 8);
}

/* The uuid of @text, which has room for two characters more. */
static void make_uuid(const uint8_t key[16], char *text, uint8_t ret_uuid[16])
{
	size_t n = strlen(text);

	for (int half = 0; half < 2; half++) {
		text[n] = ' ';
		text[n + 1] = (char)('0' + half);
		spell(gm_uuid_hash(key, text, n + 2), ret_uuid + 8 * half);
	}
	ret_uuid[6] = (uint8_t)((ret_uuid[6] & 0x0f) | 0x80); /* version 8 */
	ret_uuid[8] = (uint8_t)((ret_uuid[8] & 0x3f) | 0x80); /* variant */
}

void gm_uuid_host(const uint8_t key[16], int node, uint32_t part,
		  uint32_t parts, uint8_t ret_uuid[16])
{
	char text[96];

	snprintf(text, sizeof(text) - 2, "gpumap host node %d share %u of %u",
		 node, part, parts);
	make_uuid(key, text, ret_uuid);
}

void gm_uuid_dummy(const uint8_t key[16], const char *node, const char *row,
		   uint32_t index, uint8_t ret_uuid[16])
{
	char text[192];

	snprintf(text, sizeof(text) - 2, "gpumap dummy\n%s\n%s\n%u", node, row,
		 index);
	make_uuid(key, text, ret_uuid);
}

void gm_uuid_vendor(const uint8_t key[16], const char *driver,
		    const char *vendor, const char *id, uint8_t ret_uuid[16])
{
	char text[192];

	snprintf(text, sizeof(text) - 2, "gpumap %s\n%s\n%s", driver, vendor,
		 id);
	make_uuid(key, text, ret_uuid);
}

void gm_uuid_nameless(uint32_t index, uint8_t ret_uuid[16])
{
	const uint8_t uuid[16] = { 0,
				   0,
				   (uint8_t)(index >> 8),
				   (uint8_t)index,
				   0,
				   0,
				   0x80, /* version */
				   2,
				   0x80, /* variant */
				   'g',
				   'p',
				   'u',
				   'm',
				   'a',
				   'p' };

	memcpy(ret_uuid, uuid, sizeof(uuid));
}
