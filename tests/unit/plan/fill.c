/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* fill: maps by hand, and by chance against a second, plainer walk. */

#include <errno.h>
#include <string.h>

#include "agent/plan/fill.h"
#include "agent/plan/sizes.h"
#include "tests/support/dice.h"
#include "tests/support/tap.h"

#define MIB    (UINT64_C(1) << 20)
#define GIB    (UINT64_C(1) << 30)
#define LAYERS 12u
#define MOST   5u /* devices */

/* A model of @n layers of 1 GiB; a token's keys and values take 1 KiB. */
struct scene {
	struct gm_fill_device devices[MOST];
	uint64_t layers[LAYERS];
	struct gm_fill_request q;
};

static void set_scene(struct scene *s, size_t n_devices, const uint64_t *gib)
{
	*s = (struct scene){ 0 };
	for (size_t i = 0; i < LAYERS; i++)
		s->layers[i] = GIB;
	for (size_t i = 0; i < n_devices; i++)
		s->devices[i].avail = gib[i] * GIB;
	s->q = (struct gm_fill_request){
		.devices = s->devices,
		.n_devices = n_devices,
		.layer_bytes = s->layers,
		.n_layers = LAYERS,
		.non_mapped_bytes = GIB / 2,
		.total_bytes = LAYERS * GIB + GIB / 2,
		.mapped_act_elems = MIB,
		.dtype_bytes = 2,
		.max_seq_len = 4096,
		.max_batch_size = 1,
		.kv = { LAYERS, 1, 128, 128, false, 0, 0 },
	};
}

static void devices_fill_in_order_and_the_host_takes_the_rest(void)
{
	static const uint64_t gib[] = { 6, 4 };
	struct gm_fill f = { 0 };
	struct scene s;

	set_scene(&s, 2, gib);
	s.q.host_avail = 64 * GIB;
	EQ(gm_fill_make(&s.q, &f, NULL), 0);
	/* 6 GiB less 512 MiB less 512 MiB less 2 MiB less caches of 2 MiB. */
	EQ(f.n_entries, 2);
	EQ(f.entries[0].row, 0);
	EQ(f.entries[0].layers, 4);
	EQ(f.entries[1].row, 1);
	EQ(f.entries[1].layers, 3);
	EQ(f.host_layers, 5);
	EQ(f.kv_bytes, 2 * MIB);
	EQ(f.n_warnings, 0);
	EQ(f.n_charges, 3);
	OK(f.charges[0].has_non_mapped && !f.charges[1].has_non_mapped);
	EQ(f.charges[0].weight_bytes, 4 * GIB + GIB / 2);
	EQ(f.charges[0].kv_bytes, 8 * MIB);
	EQ(f.charges[0].act_bytes, 2 * MIB);
	EQ(f.charges[0].reserve_bytes, 512 * MIB);
	EQ(f.charges[0].left_bytes,
	   6 * GIB - 512 * MIB - 4 * GIB - GIB / 2 - 10 * MIB);
	OK(f.charges[2].is_host);
	EQ(f.charges[2].reserve_bytes, 0);
	gm_fill_free(&f);
}

static void a_model_that_fits_one_device_stays_there(void)
{
	static const uint64_t gib[] = { 80, 80 };
	struct gm_fill f = { 0 };
	struct scene s;

	set_scene(&s, 2, gib);
	EQ(gm_fill_make(&s.q, &f, NULL), 0);
	EQ(f.n_entries, 1);
	EQ(f.entries[0].layers, LAYERS);
	EQ(f.host_layers, 0);
	gm_fill_free(&f);
}

static void what_does_not_fit_says_by_how_much(void)
{
	static const uint64_t gib[] = { 6, 1 };
	struct gm_plan_error err = { 0 };
	struct gm_fill f = { 0 };
	struct scene s;

	set_scene(&s, 2, gib);
	EQ(gm_fill_make(&s.q, &f, &err), -ENOSPC);
	STR(err.text,
	    "This model does not fit on the devices [\"cuda[0] (avail: "
	    "6144MB)\", \"cuda[1] (avail: 1024MB)\", \"cpu (avail: 0MB)\"], "
	    "and exceeds total capacity by 8192MB. Auto device mapping "
	    "params: text[max_seq_len: 4096, max_batch_size: 1]");
}

static void who_takes_no_layer_is_warned_of(void)
{
	static const uint64_t gib[] = { 6, 1, 80 };
	struct gm_fill f = { 0 };
	struct scene s;

	set_scene(&s, 3, gib);
	EQ(gm_fill_make(&s.q, &f, NULL), 0);
	EQ(f.n_entries, 2);
	EQ(f.entries[1].row, 2);
	EQ(f.entries[1].layers, 8);
	EQ(f.n_warnings, 1);
	STR(f.warnings[0],
	    "Device cuda[1] can fit 0 layers. Consider reducing auto map "
	    "params from current: text[max_seq_len: 4096, max_batch_size: 1] "
	    "(ex. reducing max seq len or max num images)");
	gm_fill_free(&f);
}

static void other_weights_go_with_the_first_layer(void)
{
	static const uint64_t gib[] = { 2, 15 };
	struct gm_plan_error err = { 0 };
	struct gm_fill f = { 0 };
	struct scene s;

	set_scene(&s, 2, gib);
	s.q.non_mapped_bytes = 2 * GIB;
	s.q.total_bytes = LAYERS * GIB + 2 * GIB;
	EQ(gm_fill_make(&s.q, &f, NULL), 0);
	EQ(f.n_entries, 1);
	EQ(f.entries[0].row, 1);
	EQ(f.entries[0].layers, 12);
	OK(f.charges[0].has_non_mapped);
	gm_fill_free(&f);

	/* And where there is no room for both, that is what is said. */
	s.devices[1].avail = 3 * GIB;
	EQ(gm_fill_make(&s.q, &f, &err), -ENOSPC);
	OK(strstr(err.text, "exceeds total capacity by 14336MB") != NULL);
	OK(strstr(err.text,
		  "]. The 2147483648 bytes of its non-mapped weights fit on "
		  "none of them beside a layer") != NULL);
}

static void memory_is_offered_once(void)
{
	static const uint64_t gib[] = { 10 };
	struct gm_plan_error err = { 0 };
	struct gm_fill f = { 0 };
	struct scene s;

	/* A base on the host, and the host. */
	set_scene(&s, 1, gib);
	s.devices[0].is_host = true;
	s.q.host_avail = 10 * GIB;
	EQ(gm_fill_make(&s.q, &f, &err), -ENOSPC);
	OK(strstr(err.text, "[\"cpu (avail: 10240MB)\"]") != NULL);
	/* A GPU in the host's memory. */
	s.devices[0] = (struct gm_fill_device){ 10 * GIB, false, true };
	EQ(gm_fill_make(&s.q, &f, &err), -ENOSPC);
	OK(strstr(err.text, "[\"cuda[0] (avail: 10240MB)\"]") != NULL);
	s.devices[0].is_integrated = false;
	EQ(gm_fill_make(&s.q, &f, &err), 0);
	EQ(f.entries[0].layers + f.host_layers, LAYERS);
	gm_fill_free(&f);
}

static void pages_go_once_the_host_has_layers(void)
{
	static const uint64_t gib[] = { 10, 2 };
	struct gm_kv_paged paged = { .budget = GM_KV_MB,
				     .amount = 12 * 16,
				     .block_size = 32 };
	struct gm_fill f = { 0 };
	struct scene s;

	set_scene(&s, 2, gib);
	s.q.paged = &paged;
	s.q.host_avail = 10 * GIB;
	s.layers[8] = 2 * GIB; /* too large for the second */
	s.q.total_bytes += GIB;
	EQ(gm_fill_make(&s.q, &f, NULL), 0);
	OK(!f.is_paged);
	EQ(f.kv_bytes, 2 * MIB);
	EQ(f.n_warnings, 2); /* both walks */
	EQ(f.host_layers, 4);
	gm_fill_free(&f);

	s.devices[1].avail = 10 * GIB;
	EQ(gm_fill_make(&s.q, &f, NULL), 0);
	OK(f.is_paged);
	EQ(f.kv_bytes, 16 * MIB);
	EQ(f.host_layers, 0);
	gm_fill_free(&f);

	paged.amount = 0;
	EQ(gm_fill_make(&s.q, &f, NULL), -ENOSPC);
}

static void totals_that_disagree_do_as_there(void)
{
	static const uint64_t gib[] = { 6, 80, 80 };
	struct gm_fill f = { 0 };
	struct scene s;

	/* Too small: done once it is used up, and the rest to the host. */
	set_scene(&s, 3, gib);
	s.q.total_bytes = 4 * GIB + GIB / 2;
	s.devices[0].avail = 4 * GIB;
	s.devices[1].avail = 2 * GIB + 522 * MIB;
	EQ(gm_fill_make(&s.q, &f, NULL), 0);
	EQ(f.n_entries, 2);
	EQ(f.entries[0].layers, 2);
	EQ(f.entries[1].layers, 2);
	EQ(f.host_layers, LAYERS - 4);
	gm_fill_free(&f);

	/* Too large: a device may take what is no layer at all. */
	set_scene(&s, 3, gib);
	s.devices[0].avail = 16 * GIB;
	s.q.total_bytes += 40 * GIB;
	EQ(gm_fill_make(&s.q, &f, NULL), 0);
	EQ(f.n_entries, 2);
	EQ(f.entries[0].layers, 12);
	EQ(f.entries[1].layers, 0);
	EQ(f.charges[1].weight_bytes, 40 * GIB);
	gm_fill_free(&f);
}

static void edges_are_errors(void)
{
	static const uint64_t gib[] = { 6 };
	struct gm_fill f = { .host_layers = 7 };
	struct gm_plan_error err = { 0 };
	struct scene s;

	set_scene(&s, 1, gib);
	s.q.n_layers = 0;
	EQ(gm_fill_make(&s.q, &f, &err), -EINVAL);
	STR(err.text, "The model has no layers");
	set_scene(&s, 1, gib);
	s.q.mapped_act_elems = UINT64_MAX / 2 + 1;
	EQ(gm_fill_make(&s.q, &f, &err), -EOVERFLOW);
	set_scene(&s, 1, gib);
	s.q.total_bytes = UINT64_MAX;
	EQ(gm_fill_make(&s.q, &f, &err), -EOVERFLOW);
	set_scene(&s, 1, gib);
	s.layers[0] = UINT64_MAX;
	EQ(gm_fill_make(&s.q, &f, &err), -EOVERFLOW);
	EQ(f.host_layers, 7);
}

/*
 * The walk once more, with signed numbers and no notion of who holds what is
 * no layer's: true where the first device takes a layer.  Returns false where
 * the model does not fit; @ret_first says whether the first took one.
 */
static bool plain_walk(const struct scene *s, uint64_t kv, uint32_t *ret_n,
		       bool *ret_first)
{
	int64_t remaining = (int64_t)s->q.total_bytes, layer = 0;

	*ret_first = false;
	for (size_t i = 0; i <= s->q.n_devices; i++) {
		bool host = i == s->q.n_devices;
		int64_t cap = (int64_t)gm_sizes_capacity(
			host ? s->q.host_avail : s->devices[i].avail, host);
		int64_t act = (int64_t)(2 * s->q.mapped_act_elems);
		int64_t rest = LAYERS - layer;

		ret_n[i] = 0;
		if (remaining == 0)
			continue;
		if (i == 0 && s->q.non_mapped_act_elems > s->q.mapped_act_elems)
			act = (int64_t)(2 * s->q.non_mapped_act_elems);
		if (cap >= remaining + act + (int64_t)kv * rest) {
			ret_n[i] = (uint32_t)rest;
			remaining = 0;
		} else {
			int64_t room = cap - act;
			int64_t weights = 0;

			if (i == 0)
				weights = (int64_t)s->q.non_mapped_bytes;
			room -= weights;
			while (layer + ret_n[i] < LAYERS) {
				uint64_t size = s->layers[layer + ret_n[i]];

				if ((int64_t)(size + kv) > room)
					break;
				room -= (int64_t)(size + kv);
				weights += (int64_t)size;
				ret_n[i]++;
			}
			if (ret_n[i] > 0)
				remaining -= weights;
		}
		*ret_first |= i == 0 && ret_n[i] > 0;
		layer += ret_n[i];
	}
	return remaining == 0;
}

static void throw_scene(struct scene *s)
{
	set_scene(s, dice(MOST), (const uint64_t[MOST]){ 0 });
	s->q.total_bytes = s->q.non_mapped_bytes = dice(4) * 600 * MIB;
	for (size_t i = 0; i < LAYERS; i++) {
		s->layers[i] = (1 + dice(8)) * 100 * MIB;
		s->q.total_bytes += s->layers[i];
	}
	for (size_t i = 0; i < s->q.n_devices; i++)
		s->devices[i].avail = dice(50) * 100 * MIB;
	s->q.host_avail = dice(40) * 100 * MIB;
	s->q.mapped_act_elems = dice(3) * 50 * MIB;
	s->q.non_mapped_act_elems = dice(3) * 50 * MIB;
	s->q.max_seq_len = 1 + dice(100000);
}

static bool covers_once_within_capacity(const struct scene *s,
					const struct gm_fill *f)
{
	uint64_t layers = 0, bytes = 0;

	for (size_t i = 0; i < f->n_charges; i++) {
		const struct gm_fill_charge *c = &f->charges[i];
		uint64_t have = c->is_host ? s->q.host_avail
					   : s->devices[c->device].avail;

		if (c->weight_bytes + c->kv_bytes + c->act_bytes +
			    c->reserve_bytes + c->left_bytes !=
		    have)
			return false;
		layers += c->n_layers;
		bytes += c->weight_bytes;
	}
	return layers == LAYERS && bytes == s->q.total_bytes;
}

static bool same(const struct scene *s, const struct gm_fill *f,
		 const uint32_t *n)
{
	size_t at = 0;

	for (size_t i = 0; i < s->q.n_devices; i++) {
		if (n[i] == 0)
			continue;
		if (at == f->n_entries || f->entries[at].row != i ||
		    f->entries[at].layers != n[i])
			return false;
		at++;
	}
	return at == f->n_entries && f->host_layers == n[s->q.n_devices];
}

static void chance_agrees_with_the_plain_walk(void)
{
	int equal = 0, differ = 0, wrong = 0, fit = 0;

	for (int i = 0; i < 20000; i++) {
		uint32_t n[MOST + 1];
		struct gm_fill f = { 0 };
		struct scene s;
		bool fits, first;
		int r;

		throw_scene(&s);
		r = gm_fill_make(&s.q, &f, NULL);
		fits = plain_walk(&s, s.q.max_seq_len * 512, n, &first);
		if (r == 0)
			wrong += !covers_once_within_capacity(&s, &f);
		fit += r == 0;
		if (first) {
			bool agree =
				fits ? r == 0 && same(&s, &f, n) : r == -ENOSPC;

			equal += agree;
			differ += !agree;
		}
		gm_fill_free(&f);
	}
	NOTE("%d of 20000 fit, %d compared", fit, equal);
	EQ(differ, 0);
	EQ(wrong, 0);
	OK(equal > 5000 && fit > 5000);
}

TAP_CASE()
{
	devices_fill_in_order_and_the_host_takes_the_rest();
	a_model_that_fits_one_device_stays_there();
	what_does_not_fit_says_by_how_much();
	who_takes_no_layer_is_warned_of();
	other_weights_go_with_the_first_layer();
	memory_is_offered_once();
	pages_go_once_the_host_has_layers();
	totals_that_disagree_do_as_there();
	edges_are_errors();
	chance_agrees_with_the_plain_walk();
	return tap_done();
}
