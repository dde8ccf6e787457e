/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The head of PTX, and the heads of its entries.  Bodies are not read. */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fake/code.h"

#define ENTRIES_MAX 256

/* The newest PTX that a driver of some CUDA version knows. */
static const struct {
	int driver;
	unsigned int ptx;
} ages[] = {
	{ 13000, 90 }, { 12090, 88 }, { 12080, 87 }, { 12070, 86 },
	{ 12050, 85 }, { 12040, 84 }, { 12030, 83 }, { 12020, 82 },
	{ 12010, 81 }, { 12000, 80 }, { 11080, 78 }, { 0, 74 },
};

static unsigned int newest(int driver)
{
	size_t i = 0;

	while (ages[i].driver > driver)
		i++;
	return ages[i].ptx;
}

/* Comments and what is between quotes become blanks. */
static char *without_comments(const char *text)
{
	char *copy = strdup(text), *at = copy, *end;

	while (at && *at) {
		end = NULL;
		if (strncmp(at, "//", 2) == 0)
			end = at + strcspn(at, "\n");
		else if (strncmp(at, "/*", 2) == 0 && (end = strstr(at, "*/")))
			end += 2;
		else if (*at == '"' && (end = strchr(at + 1, '"')))
			end++;
		if (!end)
			at++;
		while (at < end)
			*at++ = ' ';
	}
	return copy;
}

static const char *after(const char *text, const char *word)
{
	const char *at = strstr(text, word);
	size_t n = strlen(word);

	while (at && !isspace((unsigned char)at[n]))
		at = strstr(at + 1, word);
	return at ? at + n : NULL;
}

static bool read_head(const char *text, struct fake_code *code)
{
	const char *version = after(text, ".version");
	const char *target = after(text, ".target");
	unsigned long major, minor;
	char *end;

	if (!version || !target || !after(text, ".address_size"))
		return false;
	major = strtoul(version, &end, 10);
	if (*end != '.')
		return false;
	minor = strtoul(end + 1, &end, 10);
	target += strspn(target, " \t\n");
	if (strncmp(target, "sm_", 3) != 0)
		return false;
	code->version = (unsigned int)(10 * major + minor);
	code->target = (unsigned int)strtoul(target + 3, &end, 10);
	code->is_exact = *end == 'a' || *end == 'f';
	return code->version && code->target;
}

/* Bytes of a type: ".u64", ".b8". */
static unsigned int width_of(const char *type)
{
	static const char letters[] = "usfb";
	unsigned long bits;

	if (!*type || !strchr(letters, *type))
		return 0;
	bits = strtoul(type + 1, NULL, 10);
	return bits == 8 || bits == 16 || bits == 32 || bits == 64
		       ? (unsigned int)bits / 8
		       : 0;
}

/* One declaration: ".param .align 8 .b8 name[16]" is 16 bytes. */
static bool read_param(const char *from, const char *to,
		       struct fake_entry *entry)
{
	unsigned int width = 0, n = 1, align;

	for (const char *at = from; at < to; at++) {
		if (*at == '.' && !width)
			width = width_of(at + 1);
		if (*at == '.' && strncmp(at, ".align", 6) == 0)
			at += 6;
		if (*at == '[')
			n = (unsigned int)strtoul(at + 1, NULL, 10);
	}
	if (!width || !n || entry->n_params == FAKE_PARAMS_MAX || n > 4096)
		return false;
	align = n > 1 ? 8 : width;
	entry->bytes = (entry->bytes + align - 1) / align * align;
	entry->sizes[entry->n_params] = (uint16_t)(width * n);
	entry->offsets[entry->n_params++] = (uint16_t)entry->bytes;
	entry->bytes += width * n;
	return true;
}

/* From behind ".entry": a name, maybe parameters, and a body. */
static const char *read_entry(const char *at, struct fake_entry *entry)
{
	size_t n = 0, length;
	const char *end;

	at += strspn(at, " \t\n\r");
	while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '$')
		n++;
	if (n == 0 || n >= FAKE_ENTRY_NAME)
		return NULL;
	*entry = (struct fake_entry){ 0 };
	memcpy(entry->name, at, n);
	at += n;
	at += strspn(at, " \t\n\r");
	if (*at == '(') {
		end = strchr(at, ')');
		for (at++; end && at < end;
		     at += length + (at[length] == ',')) {
			length = strcspn(at, ",)");
			if (strspn(at, " \t\n\r") >= length)
				continue;
			if (!read_param(at, at + length, entry))
				return NULL;
		}
		if (!end)
			return NULL;
		at = end + 1;
	}
	return strchr(at, '{');
}

static bool is_balanced(const char *text)
{
	int depth = 0;

	for (; *text && depth >= 0; text++)
		depth += (*text == '{') - (*text == '}');
	return depth == 0;
}

static CUresult read_text(const char *text, int version, struct fake_code *code)
{
	const char *at = text;

	if (!read_head(text, code))
		return CUDA_ERROR_INVALID_PTX;
	if (code->version > newest(version))
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	if (!is_balanced(text))
		return CUDA_ERROR_INVALID_PTX;
	code->entries = calloc(ENTRIES_MAX, sizeof(*code->entries));
	if (!code->entries)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (at && (at = after(at, ".entry"))) {
		if (code->n_entries == ENTRIES_MAX)
			return CUDA_ERROR_INVALID_PTX;
		at = read_entry(at, &code->entries[code->n_entries++]);
		if (!at)
			return CUDA_ERROR_INVALID_PTX;
	}
	return CUDA_SUCCESS;
}

/* A fatbin has PTX and ready-made code, one behind the other.  The first PTX
 * that is not packed, in memory of its own; NULL where there is none. */
static char *text_of(const void *image)
{
	enum { PTX = 1, PACKED = 0x2000 };
	const char *at = image, *end;
	uint64_t bytes, flags;
	uint32_t head;
	uint16_t kind;

	memcpy(&kind, at + 6, sizeof(kind)); /* of the head */
	memcpy(&bytes, at + 8, sizeof(bytes));
	at += kind;
	for (end = at + bytes; at + 64 <= end; at += head + bytes) {
		memcpy(&kind, at, sizeof(kind));
		memcpy(&head, at + 4, sizeof(head));
		memcpy(&bytes, at + 8, sizeof(bytes));
		memcpy(&flags, at + 40, sizeof(flags));
		if (head < 64 || bytes > (uint64_t)(end - at))
			break;
		if (kind == PTX && !(flags & PACKED))
			return strndup(at + head, bytes);
	}
	return NULL;
}

CUresult fake_code_read(const void *image, int version,
			struct fake_code *ret_code)
{
	static const char elf[] = "\177ELF", fatbin[] = "\x50\xed\x55\xba";
	struct fake_code code = { 0 };
	char *text, *inner = NULL;
	CUresult result;

	if (strncmp(image, elf, 4) == 0)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	if (strncmp(image, fatbin, 4) == 0) {
		inner = text_of(image);
		if (!inner)
			return CUDA_ERROR_NO_BINARY_FOR_GPU;
	}
	text = without_comments(inner ? inner : image);
	free(inner);
	if (!text)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = read_text(text, version, &code);
	free(text);
	if (result)
		free(code.entries);
	else
		*ret_code = code;
	return result;
}

bool fake_code_fits(const struct fake_code *code, const struct fake_gpu *gpu)
{
	unsigned int has = 10 * gpu->cc_major + gpu->cc_minor;

	return code->is_exact ? code->target == has : code->target <= has;
}
