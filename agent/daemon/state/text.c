/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/layout.h"
#include "shm/objects.h"

/* FNV-1a: the sum detects errors of a disk, not forgeries. */
#define KIND  "gpumap-state "
#define MAJOR "1 "

static uint64_t sum_of(const char *text, size_t bytes)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ (unsigned char)text[i]) *
		      UINT64_C(0x00000100000001b3);
	return sum;
}

static bool fits_file(char c, bool is_first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-' ||
	       (c == '.' && !is_first);
}

static bool fits_json(char c)
{
	return c >= ' ' && c <= '~' && c != '%' && c != '"' && c != '\\';
}

void gm_state_text_escape(const char *text, char ret_name[GM_STATE_NAME_BYTES])
{
	char *to = ret_name;

	for (const char *c = text; *c != '\0'; c++) {
		if (fits_file(*c, c == text))
			*to++ = *c;
		else
			to += sprintf(to, "%%%02X", (unsigned char)*c);
	}
	*to = '\0';
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of two hex digits, or -1. */
static int hex_byte(const char *at)
{
	int high = digit(at[0]), low = high < 0 ? -1 : digit(at[1]);

	return low < 0 ? -1 : high << 4 | low;
}

int gm_state_text_unescape(const char *text, char *ret_text)
{
	char *to = ret_text;

	for (const char *c = text; *c != '\0'; c++) {
		int byte = (unsigned char)*c;

		if (*c == '%') {
			byte = hex_byte(c + 1);
			if (byte <= 0)
				return -1;
			c += 2;
		}
		*to++ = (char)byte;
	}
	*to = '\0';
	return (int)(to - ret_text);
}

bool gm_state_text_owner_of(const char *file, const char *suffix,
			    char ret_name[GM_NAME_BYTES])
{
	size_t n = strlen(file), end = strlen(suffix);
	char name[GM_STATE_NAME_BYTES], want[GM_STATE_NAME_BYTES];

	if (n <= end || n >= sizeof(name))
		return false;
	memcpy(name, file, n - end);
	name[n - end] = '\0';
	if (gm_state_text_unescape(name, name) < 0 || gm_object_name(name) == 0)
		return false;
	gm_state_text_escape(name, want);
	if (strncmp(want, file, n - end) != 0 || want[n - end] != '\0' ||
	    strcmp(file + n - end, suffix) != 0)
		return false;
	memset(ret_name, 0, GM_NAME_BYTES);
	memcpy(ret_name, name, strlen(name));
	return true;
}

void gm_state_text_put(FILE *to, const char *key, const char *text)
{
	fprintf(to, "\"%s\":\"", key);
	for (const char *c = text; *c != '\0'; c++) {
		if (fits_json(*c))
			fputc(*c, to);
		else
			fprintf(to, "%%%02X", (unsigned char)*c);
	}
	fputs("\",\n", to);
}

void gm_state_text_put_uuid(FILE *to, const uint8_t uuid[16])
{
	fputc('"', to);
	for (int i = 0; i < 16; i++)
		fprintf(to, "%s%02x",
			i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			uuid[i]);
	fputc('"', to);
}

int gm_state_text_frame(FILE *to, char **body, const size_t *bytes,
			char **ret_text, size_t *ret_bytes)
{
	bool good = ferror(to) == 0 && fflush(to) == 0;
	char *text = NULL;
	int n = -1;

	if (good)
		n = asprintf(&text, KIND MAJOR "%zu %016" PRIx64 "\n%s", *bytes,
			     sum_of(*body, *bytes), *body);
	fclose(to);
	free(*body);
	if (n < 0)
		return -ENOMEM;
	*ret_text = text;
	*ret_bytes = (size_t)n;
	return 0;
}

/* The first line has one valid form only, so it is compared with the expected
 * one. */
int gm_state_text_unframe(const char *text, size_t bytes, const char **ret_body,
			  char ret_why[GM_WHY_BYTES])
{
	const char *body = memchr(text, '\n', bytes);
	char want[96];
	size_t left;

	if (bytes < strlen(KIND) || memcmp(text, KIND, strlen(KIND)) != 0)
		return gm_why(ret_why, -EPROTO, "it is no state file");
	text += strlen(KIND);
	bytes -= strlen(KIND);
	if (bytes < strlen(MAJOR) || memcmp(text, MAJOR, strlen(MAJOR)) != 0)
		return gm_why(ret_why, -EPROTO,
			      "it is of a version that this agent does not "
			      "know");
	if (body == NULL)
		return gm_why(ret_why, -EBADMSG, "it ends in its first line");
	body++;
	left = bytes - (size_t)(body - text);
	snprintf(want, sizeof(want), MAJOR "%zu %016" PRIx64 "\n", left,
		 sum_of(body, left));
	if (strlen(want) != (size_t)(body - text) ||
	    memcmp(text, want, strlen(want)) != 0)
		return gm_why(ret_why, -EBADMSG,
			      "its length or its sum is wrong: it was cut, or "
			      "changed");
	*ret_body = body;
	return 0;
}

bool gm_state_text_uuid(const char *at, uint8_t ret_uuid[16])
{
	for (int i = 0; i < 16; i++) {
		int byte;

		if (i == 4 || i == 6 || i == 8 || i == 10)
			at += *at == '-';
		byte = hex_byte(at);
		if (byte < 0)
			return false;
		ret_uuid[i] = (uint8_t)byte;
		at += 2;
	}
	return *at == '\0';
}
