/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/answers/answers.h"

const struct answers_kind answers_kinds[] = {
	{ "split", answers_split, NULL },
	{ "spec", answers_spec, NULL },
	{ "plan", answers_plan, NULL },
	{ "choose", answers_choose, NULL },
	{ "mesh", NULL, answers_mesh },
	{ "mask", NULL, answers_mask },
	{ NULL, NULL, NULL },
};

/* Takes ownership of @text, which may be NULL. */
static char *frame(char *text)
{
	char *line = NULL;

	if (text && asprintf(&line, "{\"ok\":%s}", text) < 0)
		line = NULL;
	free(text);
	return line;
}

/* {key: value}, the value given up. */
static char *dump(const char *key, json_t *value)
{
	json_t *json = json_pack("{s:o}", key, value);
	char *text = json ? gm_wide_dump(json) : NULL;

	json_decref(json);
	return text;
}

char *answers_line(const struct answers_kind *kind, const char *line, size_t n)
{
	struct gm_plan_error err = { .code = 0 };
	json_t *request = gm_wide_load(line, n, &err);
	struct gm_fields f = { request, "", &err, request ? 0 : err.code };
	json_t *json = NULL;
	char *text = NULL;

	if (request && kind->text)
		text = frame(kind->text(&f));
	else if (request)
		json = kind->json(&f);
	if (json)
		text = dump("ok", json);
	else if (f.r && f.r != -ENOMEM)
		text = dump("error", answers_string(err.text));
	json_decref(request);
	return text;
}
