/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/text.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void gm_ctl_guard_streams(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null",
			 (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) |
				 O_CLOEXEC) != fd)
			_exit(GM_EXIT_FAILED);
}

int gm_ctl_print(json_t *object)
{
	int ret = -1;

	if (object != NULL)
		ret = json_dumpf(object, stdout, JSON_COMPACT);
	json_decref(object);
	if (ret != 0 || putchar('\n') == EOF)
		return gm_ctl_failed("cannot print");
	return GM_EXIT_OK;
}

json_t *gm_ctl_text_json(const char *text)
{
	static const char other[] = "\xef\xbf\xbd";
	char *room = text != NULL ? malloc(3 * strlen(text) + 1) : NULL;
	char *to = room;
	json_t *string;

	if (room == NULL)
		return text != NULL ? NULL : json_null();
	while (*text != '\0') {
		uint32_t point, bytes = gm_text_decode(text, &point);
		uint32_t made = bytes > 0 ? bytes : sizeof(other) - 1;

		memcpy(to, bytes > 0 ? text : other, made);
		to += made;
		text += bytes > 0 ? bytes : 1;
	}
	string = json_stringn(room, (size_t)(to - room));
	free(room);
	return string;
}

void gm_ctl_print_plain(const char *text)
{
	char *plain = strdup(text);

	if (plain == NULL)
		return;
	gm_text_make_plain(plain, strlen(plain));
	fputs(plain, stdout);
	free(plain);
}

json_t *gm_ctl_rows_json(const uint64_t rows[GPUMAP_ROWS_MAX / 64])
{
	json_t *list = json_array();

	for (uint32_t row = 0; row < GPUMAP_ROWS_MAX; row++)
		if (gm_ctl_has_row(rows, row))
			json_array_append_new(list, json_integer(row));
	return list;
}

json_t *gm_ctl_list_json(const uint32_t *numbers, uint32_t n)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer(numbers[i]));
	return list;
}

void gm_ctl_print_word(const char *text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789_-+./:,=@%";

	if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
		fputs(text, stdout);
		return;
	}
	putchar('\'');
	for (; *text != '\0'; text++)
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	putchar('\'');
}

int gm_ctl_fail(const struct gm_ctl *ctl, int error, const char *format, ...)
{
	const char *refusal = gpumap_refusal(ctl->map);
	va_list args;

	fputs("gpumapctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n",
		refusal[0] != '\0' ? refusal : gpumap_strerror(error));
	if (error == -ENOENT && ctl->map == NULL)
		return GM_EXIT_NO_AGENT;
	if (error == -ECONNREFUSED || error == -ECONNRESET)
		return GM_EXIT_NO_AGENT;
	return GM_EXIT_FAILED;
}

/* Returns @status. */
static int say(int status, const char *format, va_list args)
	__attribute__((format(printf, 2, 0)));

static int say(int status, const char *format, va_list args)
{
	fputs("gpumapctl: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	return status;
}

void gm_ctl_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(GM_EXIT_OK, format, args);
}

int gm_ctl_failed(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	return say(GM_EXIT_FAILED, format, args);
}

int gm_ctl_wrong(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	return say(GM_EXIT_USAGE, format, args);
}

int gm_ctl_plan_error(const struct gm_plan_error *error)
{
	return gm_ctl_failed("%s%s%s", error->text,
			     error->remedy[0] != '\0' ? "; " : "",
			     error->remedy);
}

int gm_ctl_no_row(uint32_t row)
{
	return gm_ctl_failed("there is no row %u: gpumapctl devices lists them",
			     row);
}

int gm_ctl_unknown(const char *what, const char *name, const char *list)
{
	return gm_ctl_failed("there is no %s \"%s\"; gpumapctl %s lists those "
			     "there are",
			     what, name, list);
}

int gm_ctl_released(const struct gm_ctl *ctl, int error, const char *what,
		    const char *list)
{
	const char *name = ctl->args[0];

	if (error == -ENOENT)
		return gm_ctl_unknown(what, name, list);
	if (error != 0)
		return gm_ctl_fail(ctl, error, "release \"%s\"", name);
	if (ctl->json)
		return gm_ctl_print(json_pack("{s:s}", "released", name));
	printf("%s: released\n", name);
	return GM_EXIT_OK;
}

int gm_ctl_find_word(const char *option, const char *word, const void *entries,
		     size_t bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *const *name =
			(const void *)((const char *)entries + i * bytes);

		if (strcmp(*name, word) == 0)
			return (int)i;
	}
	fprintf(stderr, "gpumapctl: %s is ", option);
	for (size_t i = 0; i < n; i++) {
		const char *const *name =
			(const void *)((const char *)entries + i * bytes);

		fprintf(stderr, "%s%s", *name,
			i + 2 < n   ? ", "
			: i + 1 < n ? " or "
				    : "");
	}
	fprintf(stderr, ", not \"%s\"\n", word);
	return -1;
}

/* ---- words for numbers --------------------------------------------------- */

static const char *word_of(const char *const *words, size_t n, uint32_t value)
{
	return value < n && words[value] != NULL ? words[value] : "unknown";
}

static const char *const states[] = {
	[GPUMAP_STARTING] = "STARTING",
	[GPUMAP_READY] = "READY",
	[GPUMAP_DRAINING] = "DRAINING",
	[GPUMAP_RETIRED] = "RETIRED",
};

static const char *const dtypes[] = {
	[GPUMAP_DTYPE_U8] = "U8",           [GPUMAP_DTYPE_F16] = "F16",
	[GPUMAP_DTYPE_BF16] = "BF16",       [GPUMAP_DTYPE_F32] = "F32",
	[GPUMAP_DTYPE_I32] = "I32",         [GPUMAP_DTYPE_I64] = "I64",
	[GPUMAP_DTYPE_F64] = "F64",         [GPUMAP_DTYPE_U16] = "U16",
	[GPUMAP_DTYPE_U32] = "U32",         [GPUMAP_DTYPE_U64] = "U64",
	[GPUMAP_DTYPE_BOOL] = "BOOL",       [GPUMAP_DTYPE_I8] = "I8",
	[GPUMAP_DTYPE_I16] = "I16",         [GPUMAP_DTYPE_F8_E4M3] = "F8_E4M3",
	[GPUMAP_DTYPE_F8_E5M2] = "F8_E5M2",
};

static const char *const strategies[] = {
	[GPUMAP_STRATEGY_FILL] = "fill",
	[GPUMAP_STRATEGY_BALANCE] = "balance",
	[GPUMAP_STRATEGY_FEWEST] = "fewest",
};

static const char *const settings[] = { NULL,       "manual", "auto",
					"topology", "dummy",  "nccl",
					"pipeline" };

static const char *const mask_kinds[] = {
	[GPUMAP_MASK_NONE] = "none",
	[GPUMAP_MASK_CAUSAL_FLASH] = "causal_flash",
	[GPUMAP_MASK_CUSTOM] = "custom",
};

static const char *const mask_forms[] = {
	[GPUMAP_MASK_LOADED] = "loaded",
	[GPUMAP_MASK_CAUSAL] = "causal",
	[GPUMAP_MASK_SLIDING] = "sliding",
	[GPUMAP_MASK_CHUNKED] = "chunked",
	[GPUMAP_MASK_BIDIRECTIONAL_SLIDING] = "bidirectional_sliding",
};

const char *gm_ctl_state(uint32_t state)
{
	return word_of(states, COUNT(states), state);
}

const char *gm_ctl_dtype(uint32_t dtype)
{
	return word_of(dtypes, COUNT(dtypes), dtype);
}

const char *gm_ctl_strategy(uint32_t strategy)
{
	return word_of(strategies, COUNT(strategies), strategy);
}

const char *gm_ctl_setting(uint32_t setting)
{
	return word_of(settings, COUNT(settings), setting);
}

const char *gm_ctl_mask_kind(uint32_t kind)
{
	return word_of(mask_kinds, COUNT(mask_kinds), kind);
}

const char *gm_ctl_mask_form(uint32_t form)
{
	return word_of(mask_forms, COUNT(mask_forms), form);
}

uint32_t gm_ctl_setting_named(const char *name)
{
	for (uint32_t i = 1; i < COUNT(settings); i++)
		if (strcmp(name, settings[i]) == 0)
			return i;
	return 0;
}

uint32_t gm_ctl_dtype_named(const char *name)
{
	for (uint32_t i = 0; name != NULL && i < COUNT(dtypes); i++)
		if (strcmp(dtypes[i], name) == 0)
			return i;
	return GPUMAP_DTYPE_U8;
}

const char *gm_ctl_no_figures(uint32_t figures)
{
	switch (figures) {
	case GPUMAP_FIGURES_PARTLY:
		return "the driver does not tell what every process has";
	case GPUMAP_FIGURES_REFUSED:
		return "the driver does not tell what processes have";
	case GPUMAP_FIGURES_NAMESPACE:
		return "the driver tells pids of the initial pid namespace, "
		       "and the agent is in another";
	default:
		return NULL;
	}
}
