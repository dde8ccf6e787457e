/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/base/environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t"

/* Beside these, what a test build is told by its environment. */
static const char everybodys[] = "PATH TZ"
#ifdef GM_TESTPOINTS
				 " GM_POINT GM_POINT_TICKET"
#endif
#ifdef GM_SANITIZED
				 " ASAN_OPTIONS LSAN_OPTIONS"
				 " TSAN_OPTIONS UBSAN_OPTIONS"
#endif
	;

static int add(struct gm_environment *env, const char *name, size_t length,
	       const char *value)
{
	size_t room = sizeof(env->text) - env->used;
	char *at = env->text + env->used;
	int n = snprintf(at, room, "%.*s=%s", (int)length, name, value);

	if (n < 0 || (size_t)n >= room || env->n == GM_ENVIRONMENT_MAX)
		return -E2BIG;
	env->used += (size_t)n + 1;
	env->of[env->n++] = at;
	env->of[env->n] = NULL;
	return 0;
}

void gm_environment_init(struct gm_environment *env)
{
	env->of[0] = NULL;
	env->n = 0;
	env->used = 0;
	gm_environment_pass(env, everybodys);
}

int gm_environment_set(struct gm_environment *env, const char *name,
		       const char *value)
{
	return add(env, name, strlen(name), value);
}

int gm_environment_pass(struct gm_environment *env, const char *names)
{
	char name[128];
	int error = 0;

	while (names && error == 0) {
		const char *value = NULL;
		size_t length;

		names += strspn(names, BLANKS);
		length = strcspn(names, BLANKS);
		if (length == 0)
			break;
		if (length < sizeof(name)) {
			memcpy(name, names, length);
			name[length] = '\0';
			value = getenv(name);
		}
		if (value)
			error = add(env, names, length, value);
		names += length;
	}
	return error;
}
