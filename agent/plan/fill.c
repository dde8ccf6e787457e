/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/plan/fill.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/plan/checked.h"
#include "agent/plan/sizes.h"

#define MIB (UINT64_C(1) << 20)

/* One walk over the devices. */
struct walk {
	const struct gm_fill_request *q;
	struct gm_plan_error *err;
	bool adds_host;  /* one more device after the last */
	uint64_t mapped; /* largest activation while a layer runs, bytes */
	uint64_t other;  /* and outside of layers */
	uint64_t kv;     /* of one layer, bytes */
	uint64_t remaining;
	uint64_t position;
	uint32_t layer;
	bool has_holder; /* a device has the weights that are no layer's */
	bool shut_out;   /* only they kept a device from taking a layer */
	bool over;
	struct gm_fill *fill;
};

static bool is_host(const struct walk *w, size_t i)
{
	return i == w->q->n_devices || w->q->devices[i].is_host;
}

static uint64_t avail(const struct walk *w, size_t i)
{
	return i == w->q->n_devices ? w->q->host_avail : w->q->devices[i].avail;
}

static size_t n_devices(const struct walk *w)
{
	return w->q->n_devices + w->adds_host;
}

/* "cuda[2]" or "cpu" */
static const char *name_of(const struct walk *w, size_t i, char text[32])
{
	if (is_host(w, i))
		return "cpu";
	snprintf(text, 32, "cuda[%zu]", i);
	return text;
}

static int overflow(const struct walk *w)
{
	return gm_error_set(w->err, -EOVERFLOW, "correct the request",
			    "The plan's sizes come to 2^64 bytes or more");
}

/* The largest activation on a device that holds the weights of no layer, or
 * not. */
static uint64_t act_of(const struct walk *w, bool holds)
{
	return holds ? gm_max(w->mapped, w->other) : w->mapped;
}

static int warn(struct walk *w, size_t i)
{
	struct gm_fill *fill = w->fill;
	char name[32];
	char *text;
	void *v = reallocarray(fill->warnings, fill->n_warnings + 1,
			       sizeof(*fill->warnings));

	if (!v)
		return gm_error_no_memory(w->err);
	fill->warnings = v;
	if (asprintf(&text,
		     "Device %s can fit 0 layers. Consider reducing auto map "
		     "params from current: text[max_seq_len: %" PRIu64
		     ", max_batch_size: %" PRIu64
		     "] (ex. reducing max seq len or max num images)",
		     name_of(w, i, name), w->q->max_seq_len,
		     w->q->max_batch_size) < 0)
		return gm_error_no_memory(w->err);
	fill->warnings[fill->n_warnings++] = text;
	return 0;
}

/* Does all of the rest fit onto one device? */
static bool takes_rest(struct walk *w, uint64_t capacity, bool holds)
{
	uint64_t n = w->q->n_layers - w->layer;
	uint64_t need =
		gm_checked_add(&w->over, w->remaining, act_of(w, holds));

	need = gm_checked_add(&w->over, need,
			      gm_checked_mul(&w->over, w->kv, n));
	return capacity >= need;
}

/* Count the next layers that fit beside @used, and sum their weights. */
static uint32_t count_layers(struct walk *w, uint64_t capacity, uint64_t used,
			     uint64_t *ret_weights)
{
	uint32_t n = 0;

	while (w->layer + n < w->q->n_layers) {
		uint64_t size = w->q->layer_bytes[w->layer + n];
		uint64_t delta = gm_checked_add(&w->over, size, w->kv);

		if (gm_checked_add(&w->over, used, delta) > capacity || w->over)
			break;
		used += delta;
		*ret_weights += size;
		n++;
	}
	return n;
}

/* Would a device that need not hold the weights of no layer have taken a
 * layer? */
static bool is_shut_out(struct walk *w, uint64_t capacity)
{
	uint64_t weights = 0;

	return takes_rest(w, capacity, false) ||
	       count_layers(w, capacity, w->mapped, &weights) > 0;
}

static void charge(struct walk *w, size_t i, uint32_t n, uint64_t weights,
		   bool holds)
{
	uint64_t bytes = avail(w, i);
	uint64_t capacity = gm_sizes_capacity(bytes, is_host(w, i));
	struct gm_fill_charge c = {
		.device = (uint32_t)i,
		.is_host = is_host(w, i),
		.has_non_mapped = holds,
		.n_layers = n,
		.weight_bytes = weights,
		/* no overflow: the bytes were summed before */
		.kv_bytes = w->kv * n,
		.act_bytes = act_of(w, holds),
		.reserve_bytes = bytes - capacity,
	};

	c.left_bytes = capacity - c.weight_bytes - c.kv_bytes - c.act_bytes;
	w->fill->charges[w->fill->n_charges++] = c;
}

static int visit(struct walk *w, size_t i)
{
	uint64_t capacity = gm_sizes_capacity(avail(w, i), is_host(w, i));
	bool holds = !w->has_holder;
	uint64_t weights = 0;
	uint32_t n;

	if (takes_rest(w, capacity, holds)) {
		n = w->q->n_layers - w->layer;
		weights = w->remaining;
	} else {
		uint64_t used = act_of(w, holds);

		if (holds) {
			weights = w->q->non_mapped_bytes;
			used = gm_checked_add(&w->over, used, weights);
		}
		n = count_layers(w, capacity, used, &weights);
		if (w->over)
			return overflow(w);
		if (n == 0) {
			if (holds)
				w->shut_out |= is_shut_out(w, capacity);
			return w->over ? overflow(w) : warn(w, i);
		}
	}
	if (w->over)
		return overflow(w);
	charge(w, i, n, weights, holds);
	w->remaining = gm_minus(w->remaining, weights);
	w->has_holder = true;
	w->layer += n;
	if (is_host(w, i))
		w->fill->host_layers += n;
	else
		w->fill->entries[w->fill->n_entries++] =
			(struct gm_spec_entry){ i, n };
	return 0;
}

/* ["cuda[0] (avail: 1MB)", "cpu (avail: 2MB)"] for the caller to free() */
static char *list_devices(const struct walk *w)
{
	const size_t most = sizeof("\"cuda[] (avail: MB)\", ") + 40;
	char *text = malloc(n_devices(w) * most + 3);
	char *end = text;
	char name[32];

	if (!text)
		return NULL;
	end += sprintf(end, "[");
	for (size_t i = 0; i < n_devices(w); i++)
		end += sprintf(end, "%s\"%s (avail: %" PRIu64 "MB)\"",
			       i ? ", " : "", name_of(w, i, name),
			       avail(w, i) / MIB);
	sprintf(end, "]");
	return text;
}

static int does_not_fit(const struct walk *w)
{
	char *devices = list_devices(w);
	char more[128] = "";
	int r;

	if (!devices)
		return gm_error_no_memory(w->err);
	if (!w->has_holder && w->shut_out)
		snprintf(more, sizeof(more),
			 ". The %" PRIu64 " bytes of its non-mapped weights "
			 "fit on none of them beside a layer",
			 w->q->non_mapped_bytes);
	r = gm_error_set(w->err, -ENOSPC,
			 "lower max_seq_len or the batch, or quantise",
			 "This model does not fit on the devices %s, and "
			 "exceeds total capacity by %" PRIu64
			 "MB. Auto device mapping params: text[max_seq_len: "
			 "%" PRIu64 ", max_batch_size: %" PRIu64 "]%s",
			 devices, w->remaining / MIB, w->q->max_seq_len,
			 w->q->max_batch_size, more);
	free(devices);
	return r;
}

static int measure_kv(struct walk *w, const struct gm_kv_paged *paged)
{
	const struct gm_fill_request *q = w->q;
	struct gm_kv_room room = { .model_bytes = q->total_bytes,
				   .act_bytes = act_of(w, true) };

	if (!paged)
		return gm_kv_unpaged(&q->kv, q->max_seq_len, q->max_batch_size,
				     q->dtype_bytes, &w->kv, w->err);
	room.capacity = gm_sizes_capacity(avail(w, 0), is_host(w, 0));
	return gm_kv_paged_bytes(&q->kv, paged, &room, q->dtype_bytes, &w->kv,
				 w->err);
}

static int walk(struct walk *w, const struct gm_kv_paged *paged)
{
	int r;

	w->fill->n_entries = 0;
	w->fill->n_charges = 0;
	w->fill->host_layers = 0;
	w->layer = 0;
	w->has_holder = w->shut_out = false;
	w->remaining = w->q->total_bytes;
	r = measure_kv(w, paged);
	for (size_t i = 0; r == 0 && w->remaining > 0 && i < n_devices(w); i++)
		r = visit(w, i);
	if (r == 0 && w->remaining > 0)
		r = does_not_fit(w);
	return r;
}

static bool host_has_any(const struct gm_fill *fill)
{
	for (size_t i = 0; i < fill->n_charges; i++)
		if (fill->charges[i].is_host)
			return true;
	return false;
}

static int check(const struct gm_fill_request *q, struct gm_plan_error *err)
{
	if (q->n_devices > GM_FILL_DEVICES)
		return gm_error_set(err, -E2BIG, "leave some out",
				    "%zu devices, at most %u are allowed",
				    q->n_devices, GM_FILL_DEVICES);
	if (q->n_layers == 0)
		return gm_error_no_layers(err);
	return 0;
}

static int start(struct walk *w)
{
	const struct gm_fill_request *q = w->q;

	w->adds_host = true;
	for (size_t i = 0; i < q->n_devices; i++)
		if (q->devices[i].is_integrated || q->devices[i].is_host)
			w->adds_host = false;
	w->mapped =
		gm_checked_mul(&w->over, q->mapped_act_elems, q->dtype_bytes);
	w->other = gm_checked_mul(&w->over, q->non_mapped_act_elems,
				  q->dtype_bytes);
	if (w->over)
		return overflow(w);
	w->fill->entries = calloc(n_devices(w) + 1, sizeof(*w->fill->entries));
	w->fill->charges = calloc(n_devices(w) + 1, sizeof(*w->fill->charges));
	if (!w->fill->entries || !w->fill->charges)
		return gm_error_no_memory(w->err);
	return 0;
}

int gm_fill_make(const struct gm_fill_request *q, struct gm_fill *ret_fill,
		 struct gm_plan_error *ret_err)
{
	struct gm_fill fill = { .is_paged = q->paged };
	struct walk w = { .q = q, .err = ret_err, .fill = &fill };
	int r;

	r = check(q, ret_err);
	if (r == 0)
		r = start(&w);
	if (r == 0)
		r = walk(&w, q->paged);
	/* Pages are for GPUs only: with layers on the host there are none. */
	if (r == 0 && q->paged && host_has_any(&fill)) {
		fill.is_paged = false;
		r = walk(&w, NULL);
	}
	if (r) {
		gm_fill_free(&fill);
		return r;
	}
	fill.kv_bytes = w.kv;
	fill.host_layers += q->n_layers - w.layer;
	*ret_fill = fill;
	return 0;
}

void gm_fill_free(struct gm_fill *fill)
{
	if (!fill)
		return;
	free(fill->entries);
	free(fill->charges);
	while (fill->n_warnings > 0)
		free(fill->warnings[--fill->n_warnings]);
	free(fill->warnings);
	*fill = (struct gm_fill){ 0 };
}
