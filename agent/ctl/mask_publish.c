/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Publish masks: by a rule, or from a file. */

#include "agent/ctl/mask.h"
#include "agent/ctl/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/mask/mask.h"
#include "agent/mask/mask_tensor.h"

_Static_assert(GM_MASK_TENSOR_RANK == GPUMAP_MASK_RANK_MAX,
	       "shapes are copied");

#define PIECE (UINT64_C(16) << 20) /* read of a file at a time */

/* Options that describe a mask. */
#define FACTS                                                           \
	(GM_OPT(SIZE) | GM_OPT(PAST) | GM_OPT(WINDOW) | GM_OPT(CHUNK) | \
	 GM_OPT(DTYPE))

static const struct kind {
	const char *name;
	uint32_t kind;    /* enum gpumap_mask_kind */
	uint32_t form;    /* enum gpumap_mask_form */
	gm_ctl_set needs; /* of FACTS */
	gm_ctl_set takes; /* options that it may have besides */
} kinds[] = {
	{ "none", GPUMAP_MASK_NONE, 0, 0, 0 },
	{ "causal_flash", GPUMAP_MASK_CAUSAL_FLASH, 0, 0, 0 },
	{ "causal", GPUMAP_MASK_CUSTOM, GPUMAP_MASK_CAUSAL, GM_OPT(SIZE),
	  GM_OPT(PAST) | GM_OPT(DTYPE) },
	{ "sliding", GPUMAP_MASK_CUSTOM, GPUMAP_MASK_SLIDING,
	  GM_OPT(SIZE) | GM_OPT(WINDOW), GM_OPT(PAST) | GM_OPT(DTYPE) },
	{ "chunked", GPUMAP_MASK_CUSTOM, GPUMAP_MASK_CHUNKED,
	  GM_OPT(SIZE) | GM_OPT(CHUNK), GM_OPT(PAST) | GM_OPT(DTYPE) },
	{ "bidirectional_sliding", GPUMAP_MASK_CUSTOM,
	  GPUMAP_MASK_BIDIRECTIONAL_SLIDING, GM_OPT(SIZE) | GM_OPT(WINDOW),
	  GM_OPT(DTYPE) },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *gm_ctl_mask_rule(size_t i)
{
	return i < N_KINDS ? kinds[i].name : NULL;
}

static const struct {
	const char *name;
	gm_ctl_set one;
} facts[] = {
	{ "--size", GM_OPT(SIZE) },     { "--past", GM_OPT(PAST) },
	{ "--window", GM_OPT(WINDOW) }, { "--chunk", GM_OPT(CHUNK) },
	{ "--dtype", GM_OPT(DTYPE) },
};

static const char *first_of(gm_ctl_set options)
{
	size_t i = 0;

	while (i + 1 < sizeof(facts) / sizeof(facts[0]) &&
	       (facts[i].one & options) == 0)
		i++;
	return facts[i].name;
}

static int wrong(const char *what, const char *verb, const char *option)
{
	fprintf(stderr, "gpumapctl: a mask %s %s %s; see gpumapctl(1)\n", what,
		verb, option);
	return GM_EXIT_USAGE;
}

static int explain(const struct gm_plan_error *error, int ret)
{
	gm_ctl_plan_error(error);
	return ret;
}

/* ---- by a rule ----------------------------------------------------------- */

static int by_rule(const struct gm_ctl *ctl, struct gpumap_mask_request *r)
{
	const gm_ctl_set given = ctl->given & FACTS;
	const struct kind *kind = kinds;
	struct gm_plan_error error;
	char what[64];

	while (kind < kinds + N_KINDS && strcmp(kind->name, ctl->mask.kind))
		kind++;
	if (kind == kinds + N_KINDS) {
		fprintf(stderr,
			"gpumapctl: --kind is none, causal_flash, causal, "
			"sliding, chunked or bidirectional_sliding, not "
			"\"%s\"\n",
			ctl->mask.kind);
		return GM_EXIT_USAGE;
	}
	snprintf(what, sizeof(what), "of kind %s", kind->name);
	if ((kind->needs & ~given) != 0)
		return wrong(what, "needs", first_of(kind->needs & ~given));
	if ((given & ~(kind->needs | kind->takes)) != 0)
		return wrong(what, "does not take",
			     first_of(given & ~(kind->needs | kind->takes)));
	r->kind = kind->kind;
	r->form = kind->form;
	r->dtype = kind->kind == GPUMAP_MASK_CUSTOM ? GPUMAP_DTYPE_BF16 : 0;
	if (ctl->dtype != NULL &&
	    gm_mask_dtype_parse(ctl->dtype, &r->dtype, &error) != 0)
		return explain(&error, GM_EXIT_USAGE);
	r->tgt_len = ctl->mask.size;
	r->past_kv_len = ctl->mask.past;
	r->sliding_window = ctl->mask.window;
	r->chunk_size = ctl->mask.chunk;
	return GM_EXIT_OK;
}

/* ---- from a file --------------------------------------------------------- */

static int read_tensor(const struct gm_ctl *ctl, const struct gm_file *file,
		       const struct gm_mask_tensor *tensor, char *data,
		       struct gm_plan_error *error)
{
	struct gm_progress progress = { .ctl = ctl,
					.what = "read",
					.name = ctl->args[0] };
	int ret = 0;

	gm_progress_begin(&progress, tensor->bytes);
	for (uint64_t at = 0; ret == 0 && at < tensor->bytes;) {
		uint64_t n = tensor->bytes - at;

		if (n > PIECE)
			n = PIECE;
		ret = gm_file_read(file, tensor->offset + at, data + at, n,
				   error);
		at += n;
		gm_progress_tell(&progress, at, tensor->bytes);
	}
	gm_progress_end(&progress, ret == 0);
	return ret;
}

/* Read the mask's elements, to free(). */
static int from_file(const struct gm_ctl *ctl, struct gpumap_mask_request *r,
		     void **ret_data)
{
	struct gm_mask_tensor tensor;
	struct gm_plan_error error;
	struct gm_file file;
	void *data = NULL;
	int ret;

	if ((ctl->given & FACTS) != 0)
		return wrong("from a file", "does not take",
			     first_of(ctl->given & FACTS));
	if (gm_file_open(ctl->mask.file,
			 "give the path of a .npy or a "
			 "safetensors file",
			 &file, &error) != 0)
		return explain(&error, GM_EXIT_FAILED);
	ret = gm_mask_tensor_read(&file, ctl->mask.tensor, &tensor, &error);
	if (ret == 0) {
		data = malloc(tensor.bytes);
		if (data == NULL)
			ret = gm_error_no_memory(&error);
	}
	if (ret == 0)
		ret = read_tensor(ctl, &file, &tensor, data, &error);
	gm_file_close(&file);
	if (ret != 0) {
		free(data);
		return explain(&error, GM_EXIT_FAILED);
	}
	r->kind = GPUMAP_MASK_CUSTOM;
	r->form = GPUMAP_MASK_LOADED;
	r->dtype = tensor.dtype;
	r->rank = tensor.rank;
	memcpy(r->shape, tensor.shape, sizeof(r->shape));
	r->data = data;
	*ret_data = data;
	return GM_EXIT_OK;
}

/* ---- rows --------------------------------------------------------------- */

static bool can_hold(const struct gpumap_device *device)
{
	return (device->flags & GPUMAP_DEVICE_EXPORTS) != 0 &&
	       ((device->flags & GPUMAP_DEVICE_MAPPED) != 0 ||
		device->state == GPUMAP_DEVICE_READY);
}

/* Choose all rows that can have a replica, if the command line names none. */
static void choose_rows(struct gm_ctl *ctl, struct gpumap_mask_request *r)
{
	uint32_t n = gpumap_device_count(ctl->map);

	r->map = ctl->mask.map;
	if (r->map == NULL && ctl->n_rows == 0)
		for (uint32_t row = 0; row < n; row++) {
			struct gpumap_device device = { .size = sizeof(
								device) };

			if (r->kind == GPUMAP_MASK_CUSTOM &&
			    (gpumap_device_read(ctl->map, row, &device) != 0 ||
			     !can_hold(&device)))
				continue;
			ctl->rows[ctl->n_rows++] = row;
		}
	r->rows = ctl->rows;
	r->n_rows = ctl->n_rows;
}

/* How many keys a query sees of the window; engines count differently. */
static void print_window(const struct gpumap_mask_info *info)
{
	unsigned long long window = info->sliding_window;

	if (info->form == GPUMAP_MASK_SLIDING)
		printf("  window %llu: each query sees its own key and the "
		       "%llu "
		       "before it; for vLLM and transformers that is window "
		       "%llu\n",
		       window, window, window + 1);
	if (info->form == GPUMAP_MASK_BIDIRECTIONAL_SLIDING && window > 0)
		printf("  window %llu: each query sees its own key and %llu on "
		       "either side\n",
		       window, window - 1);
}

static int published(const struct gm_ctl *ctl, const char *name,
		     const struct gpumap_mask_result *result)
{
	struct gm_ctl_mask mask;
	char size[32], shape[96];
	json_t *object;
	int ret = gm_ctl_mask_read(ctl, name, &mask);

	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "mask \"%s\"", name);
	if (ctl->json) {
		object = gm_ctl_mask_json(&mask);
		json_object_set_new(object, "n_copies",
				    json_integer(result->n_copies));
		json_object_set_new(object, "n_shared",
				    json_integer(result->n_shared));
		return gm_ctl_mask_print(object);
	}
	printf("%s: version %llu, %s", name,
	       (unsigned long long)mask.info.version,
	       gm_ctl_mask_name(&mask.info));
	if (mask.info.kind == GPUMAP_MASK_CUSTOM)
		printf(", %s of %s, %s", gm_ctl_mask_shape(&mask.info, shape),
		       gm_ctl_dtype(mask.info.dtype),
		       gm_size_text(mask.info.bytes, size));
	printf(", on %u row%s: written %u time%s, %u time%s there already\n",
	       mask.info.n_rows, gm_ctl_s(mask.info.n_rows), result->n_copies,
	       gm_ctl_s(result->n_copies), result->n_shared,
	       gm_ctl_s(result->n_shared));
	print_window(&mask.info);
	return GM_EXIT_OK;
}

/* All replicas become visible at once, so none is there until all are. */
static int publish(const struct gm_ctl *ctl,
		   const struct gpumap_mask_request *request,
		   struct gpumap_mask_result *ret_result)
{
	struct gm_progress progress = { .ctl = ctl,
					.what = "publish",
					.name = request->name,
					.unit = "masks" };
	int ret;

	gm_progress_begin(&progress, 1);
	ret = gpumap_mask_publish(ctl->map, request, ret_result);
	gm_progress_end(&progress, ret == 0);
	return ret;
}

int gm_ctl_mask_publish(struct gm_ctl *ctl)
{
	struct gpumap_mask_request request = { .size = sizeof(request),
					       .name = ctl->args[0] };
	struct gpumap_mask_result result = { .size = sizeof(result) };
	void *data = NULL;
	int ret;

	if ((ctl->mask.kind != NULL) == (ctl->mask.file != NULL) ||
	    (ctl->mask.tensor != NULL && ctl->mask.file == NULL) ||
	    (ctl->mask.map != NULL && ctl->n_rows != 0)) {
		fputs("gpumapctl: mask publish needs --kind, or --file with or "
		      "without --tensor; and takes --map or --rows\n",
		      stderr);
		return GM_EXIT_USAGE;
	}
	ret = ctl->mask.kind != NULL ? by_rule(ctl, &request)
				     : from_file(ctl, &request, &data);
	if (ret != GM_EXIT_OK)
		return ret;
	choose_rows(ctl, &request);
	ret = publish(ctl, &request, &result);
	free(data);
	if (ret != 0)
		return gm_ctl_fail(ctl, ret, "publish \"%s\"", request.name);
	return published(ctl, request.name, &result);
}
