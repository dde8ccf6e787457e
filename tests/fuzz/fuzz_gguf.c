/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Headers of GGUF files, and the layers found in them; and what the library's
 * reader makes of them, which takes what the agent's takes, and to the same.
 *
 *	bytes 0-1	bytes of the file that the input does not have,
 *			little-endian
 *	then		the start of the file
 */

#include "tests/fuzz/fuzz_plan.h"

#include <errno.h>
#include <string.h>

#include "agent/plan/gguf.h"
#include "lib/checkpoint/checkpoint.h"

#define HEAD 2

static const struct gm_weight *named(const struct gm_weights *ws,
				     const char *name)
{
	for (size_t i = 0; i < ws->n; i++)
		if (strcmp(ws->v[i].name, name) == 0)
			return &ws->v[i];
	return NULL;
}

/* @list is what the agent's reader took, with @r. */
static void compare(const struct gm_tensors *list, int r, const uint8_t *data,
		    size_t size, uint64_t file_bytes)
{
	struct gm_reason why = { "" };
	struct gm_weights ws = { .why = &why };
	struct gm_weights_split split;
	uint8_t *copy = malloc(size + 1);
	int error;

	MUST(copy != NULL && gm_weights_add_file(&ws, "input") == 0);
	memcpy(copy, data, size);
	error = gm_weights_gguf_header(&ws, 0, copy, size, file_bytes, &split);
	if (error == -EAGAIN)
		MUST(size < file_bytes);
	else if (error != 0)
		MUST(why.text[0] != '\0');
	if (error != 0)
		MUST(ws.n == 0);
	/* The layer reader checks the facts that planning needs as well, and
	 * names. */
	if (r == 0) {
		MUST(error == 0 && ws.n == list->n);
		for (size_t i = 0; i < list->n; i++) {
			const struct gm_tensor *t = &list->v[i];
			const struct gm_weight *w = named(&ws, t->name);

			MUST(w && w->bytes == t->bytes);
			/* Empty ones may begin in what aligns them. */
			MUST(w->begin >= t->begin &&
			     (w->bytes == 0 ||
			      w->begin + w->bytes <= file_bytes));
			MUST(strcmp(gm_gguf_type(t->dtype),
				    gm_weights_type(w->type)) == 0);
		}
	}
	free(copy);
	gm_weights_free(&ws);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gm_plan_error err = { 0 };
	struct gm_model_config config = { 0 };
	struct gm_tensors t = { 0 };
	uint64_t more, at = 0;
	int r;

	if (size < HEAD)
		return 0;
	more = data[0] | (uint64_t)data[1] << 8;
	r = gm_gguf_header(&(struct gm_file_header){ "input", data + HEAD,
						     size - HEAD, more },
			   &t, &config, NULL, &err);
	if (r == -EAGAIN)
		MUST(more > 0);
	else if (r)
		check_error(r, &err);
	for (size_t i = 0; i < t.n && r == 0; i++) {
		MUST(gm_gguf_type(t.v[i].dtype) && t.v[i].name[0]);
		MUST(t.v[i].begin >= at);
		at = t.v[i].begin + t.v[i].bytes;
	}
	if (r == 0) {
		MUST(at <= size - HEAD + more);
		check_stack(&t, size - HEAD + more, &config);
	}
	compare(&t, r, data + HEAD, size - HEAD, size - HEAD + more);
	gm_safetensors_free(&t);
	return 0;
}
