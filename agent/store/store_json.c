/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/store/store_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			     "abcdefghijklmnopqrstuvwxyz0123456789+/";

void gm_store_json_encode(const void *bytes, size_t n, char *ret_text)
{
	const unsigned char *at = bytes;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t three = (uint32_t)at[i] << 16;

		if (i + 1 < n)
			three |= (uint32_t)at[i + 1] << 8;
		if (i + 2 < n)
			three |= at[i + 2];
		*ret_text++ = digits[three >> 18];
		*ret_text++ = digits[three >> 12 & 63];
		*ret_text++ = i + 1 < n ? digits[three >> 6 & 63] : '=';
		*ret_text++ = i + 2 < n ? digits[three & 63] : '=';
	}
	*ret_text = '\0';
}

static int digit_of(char c)
{
	const char *at = c != '\0' ? strchr(digits, c) : NULL;

	return at != NULL ? (int)(at - digits) : -1;
}

int gm_store_json_decode(const char *text, size_t most, char *ret_bytes)
{
	size_t n = strlen(text), bytes = n / 4 * 3;
	size_t fill = 0;

	while (fill < 2 && fill < n && text[n - 1 - fill] == '=')
		fill++;
	if (n % 4 != 0 || bytes - fill > most || bytes < fill)
		return -EPROTO;
	for (size_t i = 0; i < n; i += 4) {
		uint32_t three = 0;

		for (size_t j = 0; j < 4; j++) {
			int digit =
				i + j < n - fill ? digit_of(text[i + j]) : 0;

			if (digit < 0)
				return -EPROTO;
			three = three << 6 | (uint32_t)digit;
		}
		for (size_t j = 0; j < 3 && i / 4 * 3 + j < bytes - fill; j++)
			ret_bytes[i / 4 * 3 + j] =
				(char)(three >> (16 - 8 * j) & 255);
	}
	return (int)(bytes - fill);
}

json_t *gm_store_json_bytes(const void *bytes, size_t n)
{
	char *text = malloc(GM_STORE_JSON_BASE64(n));
	json_t *string;

	if (text == NULL)
		return NULL;
	gm_store_json_encode(bytes, n, text);
	string = json_string(text);
	free(text);
	return string;
}

uint64_t gm_store_json_number(const json_t *object, const char *field)
{
	const char *text = json_string_value(json_object_get(object, field));
	unsigned long long number;
	char *end;

	if (text == NULL || text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' ? number : 0;
}

json_t *gm_store_json_text(uint64_t number)
{
	return json_sprintf("%" PRIu64, number);
}

json_t *gm_store_json_parse(const char *text, size_t n)
{
	return json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
}
