/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/fake/plan.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * The sentences.  In one, %d is a number, %b bytes with or without a unit, %t
 * a time with its unit, %v a version, %w a word; any other word is itself.
 */
static const struct sentence {
	const char *form;
	enum fake_fault_kind kind;
	uint64_t value; /* where the sentence has no first figure */
} sentences[] = {
	{ "sticky %d", FAKE_STICKY, 0 },
	{ "hang", FAKE_HANG, 0 },
	{ "lost", FAKE_LOST, 0 },
	{ "back", FAKE_BACK, 0 },
	{ "xid %d", FAKE_XID, 0 },
	{ "out of memory after %b", FAKE_MEMORY, 0 },
	{ "prohibited", FAKE_MODE, 2 },
	{ "exclusive process", FAKE_MODE, 3 },
	{ "attribute %d is %d", FAKE_ATTRIBUTE, 0 },
	{ "peer copies corrupt", FAKE_CORRUPT, 0 },
	{ "copies take %t", FAKE_COPIES_TAKE, 0 },
	{ "launches take %t", FAKE_LAUNCHES_TAKE, 0 },
	{ "registrations take %t", FAKE_REGISTRATIONS_TAKE, 0 },
	{ "registrations up to %b", FAKE_REGISTRATIONS_MOST, 0 },
	{ "jit fails %d", FAKE_JIT_FAILS, 0 },
	{ "init takes %t", FAKE_INIT_TAKES, 0 },
	{ "init fails %d", FAKE_INIT_FAILS, 0 },
	{ "driver %v", FAKE_DRIVER, 0 },
	{ "symbol missing %w", FAKE_SYMBOL, 0 },
	{ "exit takes %t", FAKE_EXIT_TAKES, 0 },
	{ "nvml slow %t", FAKE_NVML_SLOW, 0 },
	{ "nvml memory not supported", FAKE_NVML_MEMORY, 0 },
	{ "nvml processes refused", FAKE_NVML_PROCESSES, FAKE_REFUSED },
	{ "nvml processes without bytes", FAKE_NVML_PROCESSES, FAKE_NO_BYTES },
	{ "nvml processes without pids", FAKE_NVML_PROCESSES, FAKE_NO_PIDS },
	{ "nvml event wait fails", FAKE_NVML_WAIT, 0 },
	{ "nvml lost", FAKE_NVML_LOST, 0 },
	{ "memory error", FAKE_ECC, 0 },
	{ "link to %d", FAKE_LINK, 0 },
	{ "recovery action %d", FAKE_RECOVERY, 0 },
};

struct unit {
	const char *name;
	uint64_t times;
};

static const struct unit sizes[] = {
	{ "GiB", UINT64_C(1) << 30 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "KiB", UINT64_C(1) << 10 },
	{ NULL, 1 },
};

static const struct unit times[] = {
	{ "ms", 1000000 },   { "us", 1000 }, { "ns", 1 },
	{ "s", 1000000000 }, { NULL, 0 },
};

static const char *skip_blanks(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

static bool read_number(const char **at, uint64_t *ret_value)
{
	char *end;

	*at = skip_blanks(*at);
	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	*ret_value = strtoull(*at, &end, 10);
	*at = end;
	return errno == 0;
}

static bool read_word(const char **at, const char *word)
{
	size_t n = strlen(word);
	const char *from = skip_blanks(*at);

	if (strncmp(from, word, n) != 0 || isalnum((unsigned char)from[n]))
		return false;
	*at = from + n;
	return true;
}

/* A figure and its unit; the last entry of @units has no name. */
static bool read_measure(const char **at, const struct unit *units,
			 uint64_t *ret_value)
{
	if (!read_number(at, ret_value))
		return false;
	while (units->name && !read_word(at, units->name))
		units++;
	return units->times &&
	       !__builtin_mul_overflow(*ret_value, units->times, ret_value);
}

/* "12.2" as 12020. */
static bool read_version(const char **at, uint64_t *ret_value)
{
	uint64_t major, minor;

	if (!read_number(at, &major) || **at != '.')
		return false;
	++*at;
	if (!read_number(at, &minor) || major > 99 || minor > 99)
		return false;
	*ret_value = 1000 * major + 10 * minor;
	return true;
}

static bool read_name(const char **at, char *name)
{
	const char *from = skip_blanks(*at);
	size_t n = 0;

	while (isalnum((unsigned char)from[n]) || from[n] == '_')
		n++;
	if (n == 0 || n >= FAKE_NAME_MAX)
		return false;
	memcpy(name, from, n);
	name[n] = '\0';
	*at = from + n;
	return true;
}

static bool read_figure(const char **at, char form, uint64_t *figure,
			struct fake_fault *fault)
{
	switch (form) {
	case 'd':
		return read_number(at, figure);
	case 'b':
		return read_measure(at, sizes, figure);
	case 't':
		return read_measure(at, times, figure);
	case 'v':
		return read_version(at, figure);
	default:
		return read_name(at, fault->name);
	}
}

/* Whether the text at @at is @sentence; then @at is behind it. */
static bool read_sentence(const char **at, const struct sentence *sentence,
			  struct fake_fault *fault)
{
	const char *form = sentence->form, *from = *at;
	uint64_t *figure = &fault->value;
	char word[FAKE_NAME_MAX];

	fault->value = sentence->value;
	while (*form) {
		size_t n = strcspn(form, " ");

		memcpy(word, form, n);
		word[n] = '\0';
		form += n + (form[n] == ' ');
		if (word[0] != '%') {
			if (!read_word(&from, word))
				return false;
			continue;
		}
		if (!read_figure(&from, word[1], figure, fault))
			return false;
		figure = &fault->to;
	}
	from = skip_blanks(from);
	if (*from && *from != '\n' && *from != ';' && *from != '#')
		return false;
	*at = from;
	fault->kind = sentence->kind;
	return true;
}

/* "row 1:", "launch 17:", "copy 3:" before the sentence. */
static bool read_prefix(const char **at, const char *word, uint32_t *ret_number)
{
	const char *from = *at;
	uint64_t number;

	if (!read_word(&from, word) || !read_number(&from, &number))
		return false;
	from = skip_blanks(from);
	if (*from != ':' || number >= FAKE_ANY_GPU)
		return false;
	*ret_number = (uint32_t)number;
	*at = from + 1;
	return true;
}

static bool read_fault(const char **at, struct fake_fault *ret_fault)
{
	struct fake_fault fault = { .gpu = FAKE_ANY_GPU };

	(void)read_prefix(at, "row", &fault.gpu);
	if (read_prefix(at, "launch", &fault.nth))
		fault.on = FAKE_ON_LAUNCH;
	else if (read_prefix(at, "copy", &fault.nth))
		fault.on = FAKE_ON_COPY;

	for (size_t i = 0; i < sizeof(sentences) / sizeof(sentences[0]); i++) {
		if (!read_sentence(at, &sentences[i], &fault))
			continue;
		*ret_fault = fault;
		return true;
	}
	return false;
}

int fake_plan_add(struct fake_plan *plan, const char *text,
		  const char **ret_where)
{
	uint32_t n = plan->n_faults;
	const char *at = text;

	for (;;) {
		at += strspn(at, " \t\n;");
		if (*at == '#') {
			at += strcspn(at, "\n");
			continue;
		}
		if (*at == '\0')
			break;
		*ret_where = at;
		if (n == FAKE_FAULTS)
			return -ENOSPC;
		if (!read_fault(&at, &plan->faults[n]))
			return -EINVAL;
		n++;
	}
	plan->n_faults = n;
	return 0;
}
