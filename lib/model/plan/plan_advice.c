/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Find changes with which a plan that does not fit would fit. */

#include <stdlib.h>

#include "lib/model/plan/checked.h"
#include "lib/model/plan/plan_draft.h"

/* most bytes that advice adds to a row */
#define MOST_MEMORY (UINT64_C(1) << 50)

static bool fits(const struct gm_plan_request *q)
{
	return gm_plan_try(q, NULL, NULL) == 0;
}

/* The largest value below @asked of the longest sequence, or of the largest
 * batch, with which @q fits, or 0. */
static uint64_t largest(const struct gm_plan_request *request, bool is_batch,
			uint64_t asked)
{
	struct gm_plan_request q = *request;
	uint64_t low = 0, high = asked - 1;

	while (low < high) {
		uint64_t middle = high - (high - low) / 2;

		if (is_batch)
			q.ask.max_batch_size = (uint32_t)middle;
		else
			q.ask.max_seq_len = middle;
		if (fits(&q))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* The least of at most @most more bytes on @device that make @q fit, or 0. */
static uint64_t least_memory(const struct gm_plan_request *q,
			     struct gm_plan_device *device, uint64_t most)
{
	uint64_t avail = device->avail, low = 1, high;
	bool enough;

	high = gm_min(most, UINT64_MAX - avail);
	device->avail = avail + high;
	enough = high > 0 && fits(q);
	while (enough && low < high) {
		uint64_t middle = low + (high - low) / 2;

		device->avail = avail + middle;
		if (fits(q))
			high = middle;
		else
			low = middle + 1;
	}
	device->avail = avail;
	return enough ? high : 0;
}

static void find_memory(struct gm_plan_request *q,
			struct gm_plan_device *devices,
			struct gm_plan_advice *ret)
{
	uint64_t best = MOST_MEMORY;

	/* Each next row only counts if it needs less than those before. */
	for (uint32_t i = 0; i < q->n_devices; i++) {
		uint64_t bytes = least_memory(q, &devices[i], best - 1);

		if (bytes == 0)
			continue;
		best = bytes;
		ret->missing_bytes = bytes;
		ret->missing_row = devices[i].row;
	}
}

/* The largest device that is no host; the first of equals, or NULL. */
static const struct gm_plan_device *
largest_device(const struct gm_plan_request *q)
{
	const struct gm_plan_device *best = NULL;

	for (uint32_t i = 0; i < q->n_devices; i++) {
		const struct gm_plan_device *device = &q->devices[i];

		if (!device->is_host && !device->is_integrated &&
		    (!best || device->total > best->total))
			best = device;
	}
	return best;
}

/* A row number that no device has yet. */
static uint32_t next_row(const struct gm_plan_request *q)
{
	uint32_t row = 0;

	for (uint32_t i = 0; i < q->n_devices; i++)
		row = q->devices[i].row >= row ? q->devices[i].row + 1 : row;
	return row;
}

/* Find the least number of further rows like the largest with which @q fits.
 * @devices have room for GPUMAP_ROWS_MAX. */
static void find_rows(struct gm_plan_request *q, struct gm_plan_device *devices,
		      struct gm_plan_advice *ret)
{
	const struct gm_plan_device *model = largest_device(q);
	uint32_t n = q->n_devices, row = next_row(q);
	uint32_t low = 1, high = GPUMAP_ROWS_MAX - n;

	if (!model || high == 0 || q->ask.setting != GPUMAP_SETTING_AUTO)
		return;
	for (uint32_t i = n; i < GPUMAP_ROWS_MAX; i++) {
		devices[i] = *model;
		devices[i].row = row++;
		devices[i].avail = model->total; /* nothing uses it yet */
	}
	q->n_devices = n + high;
	if (fits(q)) {
		while (low < high) {
			uint32_t middle = low + (high - low) / 2;

			q->n_devices = n + middle;
			if (fits(q))
				high = middle;
			else
				low = middle + 1;
		}
		ret->more_rows = high;
		ret->like_row = model->row;
	}
	q->n_devices = n;
}

/* The first of these types, each of which packs more, with which @q fits. */
static enum gm_isq least_packing(const struct gm_plan_request *q,
				 uint64_t *layers)
{
	static const uint8_t types[] = { GM_ISQ_Q8_0, GM_ISQ_Q6K, GM_ISQ_Q4K,
					 GM_ISQ_Q3K, GM_ISQ_Q2K };
	struct gm_plan_request packed = *q;

	packed.ask.layer_bytes = layers;
	for (size_t i = 0; i < sizeof(types); i++) {
		uint32_t factor = gm_isq_pack_factor((enum gm_isq)types[i],
						     q->weight_bytes);

		for (uint32_t j = 0; j < q->ask.n_layers; j++)
			layers[j] = q->ask.layer_bytes[j] / factor;
		packed.ask.other_bytes = q->ask.other_bytes / factor;
		packed.ask.tied_bytes = q->ask.tied_bytes / factor;
		if (fits(&packed))
			return (enum gm_isq)types[i];
	}
	return GM_ISQ_N;
}

int gm_plan_advise(const struct gm_plan_request *request,
		   struct gm_plan_advice *ret_advice,
		   struct gm_plan_error *ret_err)
{
	struct gm_plan_advice advice = { .missing_row = GM_ROW_FIRST,
					 .isq = GM_ISQ_N };
	struct gm_plan_request q = *request;
	struct gm_plan_device *devices =
		calloc(GPUMAP_ROWS_MAX, sizeof(*devices));
	uint64_t *layers = calloc((size_t)q.ask.n_layers + 1, sizeof(*layers));
	int r = 0;

	if (!devices || !layers) {
		r = gm_error_no_memory(ret_err);
		goto out;
	}
	for (uint32_t i = 0; i < q.n_devices; i++)
		devices[i] = request->devices[i];
	q.devices = devices;
	find_memory(&q, devices, &advice);
	find_rows(&q, devices, &advice);
	advice.max_seq_len = largest(&q, false,
				     q.ask.max_seq_len ? q.ask.max_seq_len
						       : GM_PLAN_SEQ_LEN);
	advice.max_batch_size =
		largest(&q, true,
			q.ask.max_batch_size ? q.ask.max_batch_size
					     : GM_PLAN_BATCH_SIZE);
	if (q.ask.layer_bytes && q.weight_bytes > 1)
		advice.isq = least_packing(&q, layers);
	*ret_advice = advice;
out:
	free(devices);
	free(layers);
	return r;
}
