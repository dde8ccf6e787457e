/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "lib/model/plan/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/model/checkpoint/checkpoint.h"
#include "shm/layout.h"

int gm_error_set(struct gm_plan_error *err, int code, const char *remedy,
		 const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	snprintf(err->remedy, sizeof(err->remedy), "%s", remedy ? remedy : "");
	gm_reason_make_plain(err->text);
	gm_reason_make_plain(err->remedy);
	return code;
}

/* The text's share of a refusal's bytes, without "; " and the NUL. */
#define TEXT_ROOM 160

void gm_error_explain(const struct gm_plan_error *err, char *ret_text,
		      size_t bytes)
{
	int n = (int)strlen(err->text), room = (int)bytes - 1;

	if (n > 0 && err->text[n - 1] == '.') /* something may follow */
		n--;
	if (err->remedy[0] != '\0')
		snprintf(ret_text, bytes, "%.*s; %.*s",
			 n < TEXT_ROOM ? n : TEXT_ROOM, err->text,
			 room - TEXT_ROOM - 2, err->remedy);
	else
		snprintf(ret_text, bytes, "%.*s", room, err->text);
}

int gm_error_of_sentence(struct gm_plan_error *err, int code,
			 const char *sentence)
{
	const char *end = sentence + strlen(sentence), *remedy = NULL;

	for (const char *at = sentence; (at = strstr(at, "; ")) != NULL;) {
		end = at;
		at += strlen("; ");
		remedy = at;
	}
	if (sentence[0] == '\0')
		return gm_error_no_memory(err);
	return gm_error_set(err, code, remedy, "%.*s", (int)(end - sentence),
			    sentence);
}

int gm_error_no_memory(struct gm_plan_error *err)
{
	return gm_error_set(err, -ENOMEM, "free some memory and try again",
			    "out of memory");
}

int gm_error_no_layers(struct gm_plan_error *err)
{
	return gm_error_set(err, -EINVAL,
			    "give a model with at least one layer",
			    "The model has no layers");
}

int gm_error_large_plan(struct gm_plan_error *err)
{
	return gm_error_set(err, -EOVERFLOW, "correct the request",
			    "The plan's sizes come to 2^64 bytes or more");
}

int gm_error_large_cache(struct gm_plan_error *err)
{
	return gm_error_set(err, -EOVERFLOW,
			    "lower max_seq_len or max_batch_size",
			    "The KV cache comes to 2^64 bytes or more");
}

int gm_error_many_layers(struct gm_plan_error *err)
{
	return gm_error_set(err, -E2BIG, "check the numbers of layers",
			    "More than the %u layers that a map may have",
			    GM_LAYERS_MAX);
}
