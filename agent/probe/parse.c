/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define UUID_TEXT 36u /* "01234567-89ab-cdef-0123-456789abcdef" */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void gm_parse_copy(char *ret_text, size_t bytes, const char *text, size_t size)
{
	size_t end = strnlen(text, size), first = 0, n = 0;

	while (first < end && is_blank(text[first]))
		first++;
	while (end > first && is_blank(text[end - 1]))
		end--;
	for (; first < end && n + 1 < bytes; first++) {
		char c = text[first];

		ret_text[n++] = c >= ' ' && c <= '~' ? c : '?';
	}
	ret_text[n] = '\0';
}

/* The value of a hexadecimal digit, or -1. */
static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int gm_parse_uuid(const char *text, uint8_t ret_uuid[16])
{
	static const uint8_t zeros[16];
	uint8_t uuid[16];
	uint32_t n = 0;

	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return -EINVAL;
	text += 4;
	for (uint32_t i = 0; i < UUID_TEXT; i++) {
		if (i == 8 || i == 13 || i == 18 || i == 23) {
			if (text[i] != '-')
				return -EINVAL;
			continue;
		}
		if (digit(text[i]) < 0)
			return -EINVAL;
		uuid[n / 2] = (uint8_t)(n % 2 ? uuid[n / 2] << 4 : 0);
		uuid[n / 2] = (uint8_t)(uuid[n / 2] | digit(text[i]));
		n++;
	}
	if (text[UUID_TEXT] || memcmp(uuid, zeros, sizeof(uuid)) == 0)
		return -EINVAL;
	memcpy(ret_uuid, uuid, sizeof(uuid));
	return 0;
}

/* Hexadecimal digits up to @end, at least one and at most @most. */
static bool take_hex(const char **text, char end, uint32_t most,
		     uint32_t *ret_value)
{
	const char *at = *text;
	uint32_t value = 0;

	for (; digit(*at) >= 0; at++) {
		if ((uint32_t)(at - *text) >= most)
			return false;
		value = value << 4 | (uint32_t)digit(*at);
	}
	if (at == *text || *at != end)
		return false;
	*text = end ? at + 1 : at;
	*ret_value = value;
	return true;
}

int gm_parse_pci(const char *text, uint32_t *ret_domain, uint32_t *ret_bus)
{
	uint32_t domain = 0, bus, device, function;
	const char *first = strchr(text, ':');

	if (first && strchr(first + 1, ':') &&
	    !take_hex(&text, ':', 8, &domain))
		return -EINVAL;
	if (!take_hex(&text, ':', 2, &bus) ||
	    !take_hex(&text, '.', 2, &device) ||
	    !take_hex(&text, '\0', 1, &function))
		return -EINVAL;
	if (device > 31 || function > 7)
		return -EINVAL;
	*ret_domain = domain;
	*ret_bus = bus << 8 | device << 3 | function;
	return 0;
}

/* A decimal number, which may be too long to be one. */
static const char *take_number(const char *text, uint32_t *ret_value)
{
	uint32_t value = 0;

	while (*text >= '0' && *text <= '9') {
		if (value < 100000)
			value = value * 10 + (uint32_t)(*text - '0');
		text++;
	}
	*ret_value = value;
	return text;
}

uint32_t gm_parse_driver(const char *text)
{
	uint32_t major, minor = 0;
	const char *at = take_number(text, &major);

	if (at == text || major >= 100000)
		return 0;
	if (*at == '.')
		take_number(at + 1, &minor);
	return 1000 * major + (minor < 999 ? minor : 999);
}

void gm_parse_profile(const char *name, char *ret_profile, size_t bytes)
{
	const char *at = strstr(name, " MIG ");

	at = at ? at + 5 : "";
	gm_parse_copy(ret_profile, bytes, at, strlen(at));
}

/* The text behind "@key:" on a line of its own, or NULL. */
static const char *value_of(const char *text, const char *key)
{
	size_t length = strlen(key);

	while (text) {
		if (strncmp(text, key, length) == 0 && text[length] == ':')
			return text + length + 1;
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	return NULL;
}

void gm_parse_information(const char *text,
			  struct gm_parse_information *ret_information)
{
	struct gm_parse_information info = { .minor = -1 };
	const char *at = value_of(text, "GPU UUID");
	uint32_t minor;

	if (at)
		gm_parse_copy(info.id, sizeof(info.id), at, strcspn(at, "\n"));
	/* "GPU-????????-..." until the card has been initialised once. */
	if (gm_parse_uuid(info.id, info.uuid) < 0)
		info.id[0] = '\0';
	at = value_of(text, "Device Minor");
	if (at) {
		while (is_blank(*at) && *at != '\n')
			at++;
		if (take_number(at, &minor) != at && minor < 100000)
			info.minor = (int32_t)minor;
	}
	*ret_information = info;
}

void gm_parse_made_uuid(uint32_t domain, uint32_t bus, uint8_t ret_uuid[16])
{
	uint8_t uuid[16] = { 0 };

	for (int i = 0; i < 4; i++)
		uuid[i] = (uint8_t)(domain >> (24 - 8 * i));
	uuid[4] = (uint8_t)(bus >> 8);
	uuid[5] = (uint8_t)bus;
	uuid[6] = 0x80; /* version */
	uuid[7] = 1;
	uuid[8] = 0x80; /* variant */
	memcpy(uuid + 9, "gpumap", 6);
	memcpy(ret_uuid, uuid, sizeof(uuid));
}
