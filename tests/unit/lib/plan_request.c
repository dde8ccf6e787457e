/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* plan, who: what is asked of the agent, what is believed of its answer, and
 * what the segment says of reservations. */

#include <gpumap/plan.h>

#include "tests/support/peer/peer_session.h"

#define N_LAYERS 5u

/* ---- answers ------------------------------------------------------------- */

/* In the order of a reply: two charges, three runs, a spec, a warning. */
struct reply {
	struct gm_control_plan_reply head;
	struct gpumap_plan_charge charges[2];
	struct gm_control_run runs[3];
	char texts[16];
};

static struct reply good_reply(void)
{
	struct reply reply = {
		.head = { .version = 9,
			  .kv_bytes = 64,
			  .n_layers = N_LAYERS,
			  .n_charges = 2,
			  .n_runs = 3,
			  .base_row = 1,
			  .compute_dtype = GPUMAP_DTYPE_BF16,
			  .missing_bytes = 11,
			  .missing_row = 2,
			  .spec_bytes = 4,
			  .warning_bytes = 12 },
		.charges = { { .row = 1, .n_layers = 3, .left_bytes = 7 },
			     { .row = 0, .n_layers = 2 } },
		.runs = { { 1, 2 }, { 0, 2 }, { 1, 1 } },
		.texts = "1:3\0be careful!",
	};

	return reply;
}

/* @body bytes of body, what is left of @bytes is the tail. */
static void answer(int status, const void *reply, uint32_t body, uint32_t bytes)
{
	pthread_mutex_lock(&peer.plan_lock);
	peer.plan_status = status;
	peer.plan_body = body;
	peer.plan_tail = bytes - body;
	memcpy(peer.plan, reply, bytes);
	pthread_mutex_unlock(&peer.plan_lock);
}

static void answer_with(const struct reply *reply, uint32_t bytes)
{
	answer(0, reply, sizeof(reply->head), bytes);
}

static struct gpumap_plan_request request_of(void)
{
	static const uint64_t sizes[N_LAYERS] = { 1, 2, 3, 4, 5 };
	static const uint32_t rows[] = { 1, 0, 2 };
	static const struct gpumap_layer_cache caches[] = {
		{ .n_layers = 4, .n_heads = 1 },
		{ .n_layers = 1, .n_heads = 6, .state_elements = 7 },
	};

	return (struct gpumap_plan_request){
		.size = sizeof(struct gpumap_plan_request),
		.name = "mine",
		.flags = GPUMAP_PLAN_COMMIT,
		.setting = GPUMAP_SETTING_PIPELINE,
		.text = "3,2",
		.weights = "1,2,3,4,5",
		.rows = rows,
		.n_rows = 3,
		.n_layers = N_LAYERS,
		.layer_bytes = sizes,
		.other_bytes = 77,
		.caches = caches,
		.n_caches = 2,
		.max_seq_len = 4096,
		.paged = GPUMAP_PAGED_SHARE,
		.paged_share = 0.5f,
	};
}

static int ask(struct gpumap_plan *plan, uint32_t rows[N_LAYERS],
	       struct gpumap_plan_charge charges[2])
{
	struct gpumap_plan_request request = request_of();

	*plan = (struct gpumap_plan){ .size = sizeof(*plan) };
	return gpumap_plan_make(map, &request, plan, rows, N_LAYERS, charges,
				2);
}

static void the_request_says_it_all(void)
{
	struct gpumap_plan_charge charges[2];
	struct reply reply = good_reply();
	struct gm_control_plan body;
	struct gpumap_plan plan;
	uint32_t rows[N_LAYERS];
	struct gpumap_layer_cache caches[2];
	uint64_t sizes[N_LAYERS];
	char asked[sizeof(peer.asked)];
	const char *tail = asked + sizeof(body);
	float share;

	answer_with(&reply, sizeof(reply));
	EQ(ask(&plan, rows, charges), 0);
	pthread_mutex_lock(&peer.plan_lock);
	memcpy(asked, peer.asked, sizeof(asked));
	pthread_mutex_unlock(&peer.plan_lock);
	memcpy(&body, asked, sizeof(body));
	STR(body.name, "mine");
	EQ(body.flags, GPUMAP_PLAN_COMMIT);
	EQ(body.setting, GPUMAP_SETTING_PIPELINE);
	EQ(body.text_bytes, 4);
	EQ(body.weight_bytes, 10);
	EQ(body.n_bytes, N_LAYERS);
	EQ(body.n_rows, 3);
	EQ(body.other_bytes, 77);
	EQ(body.n_caches, 2);
	EQ(body.max_seq_len, 4096);
	memcpy(&share, &body.paged_share, sizeof(share));
	OK(share == 0.5f);
	STR(tail, "3,2");
	STR(tail + 8, "1,2,3,4,5");
	memcpy(sizes, tail + 24, sizeof(sizes));
	EQ(sizes[4], 5);
	memcpy(caches, tail + 24 + sizeof(sizes), sizeof(caches));
	EQ(caches[1].n_layers, 1);
	EQ(caches[1].n_heads, 6);
	EQ(caches[1].state_elements, 7);
	memcpy(rows, tail + 24 + sizeof(sizes) + sizeof(caches),
	       3 * sizeof(rows[0]));
	EQ(rows[0], 1);
	EQ(rows[2], 2);
}

static void the_answer_is_told_whole(void)
{
	static const uint32_t want[N_LAYERS] = { 1, 1, 0, 0, 1 };
	struct gpumap_plan_charge charges[2];
	struct reply reply = good_reply();
	struct gpumap_plan plan;
	uint32_t rows[N_LAYERS];

	answer_with(&reply, sizeof(reply));
	EQ(ask(&plan, rows, charges), 0);
	STR(gpumap_refusal(map), "");
	OK(memcmp(rows, want, sizeof(want)) == 0);
	EQ(plan.n_layers, N_LAYERS);
	EQ(plan.n_charges, 2);
	EQ(plan.base_row, 1);
	EQ(plan.version, 9);
	EQ(plan.kv_bytes, 64);
	EQ(plan.compute_dtype, GPUMAP_DTYPE_BF16);
	EQ(plan.missing_bytes, 11);
	EQ(plan.missing_row, 2);
	STR(plan.spec, "1:3");
	STR(plan.warnings, "be careful!");
	EQ(charges[0].row, 1);
	EQ(charges[0].left_bytes, 7);
	EQ(charges[1].n_layers, 2);

	/* A caller of an older header gets what that has. */
	plan = (struct gpumap_plan){ .size = offsetof(struct gpumap_plan,
						      warnings) };
	struct gpumap_plan_request request = request_of();
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), 0);
	STR(plan.spec, "1:3");
	STR(plan.warnings, "");
}

/* The plan is told, and nothing is written past the end of an array. */
static void arrays_may_be_too_small(void)
{
	struct gpumap_plan_request request = request_of();
	struct gpumap_plan_charge charges[2] = { { .row = 99 }, { .row = 99 } };
	struct gpumap_plan plan = { .size = sizeof(plan) };
	struct reply reply = good_reply();
	uint32_t rows[N_LAYERS] = { 99, 99, 99, 99, 99 };

	answer_with(&reply, sizeof(reply));
	EQ(gpumap_plan_make(map, &request, &plan, rows, N_LAYERS - 1, charges,
			    2),
	   -ENOBUFS);
	EQ(plan.n_layers, N_LAYERS);
	EQ(gpumap_plan_make(map, &request, &plan, rows, N_LAYERS, charges, 1),
	   -ENOBUFS);
	EQ(plan.n_charges, 2);
	EQ(rows[0], 99);
	EQ(charges[0].row, 99);
}

/* Each is wrong in one number, or cut. */
static void lies_are_not_believed(void)
{
	struct gpumap_plan_charge charges[2];
	struct reply good = good_reply(), bad[13];
	struct gpumap_plan plan;
	uint32_t rows[N_LAYERS];
	int wrong = 0;

	for (size_t i = 0; i < 13; i++)
		bad[i] = good;
	bad[0].head.n_layers = 0;
	bad[1].head.n_layers = N_LAYERS + 1;
	bad[2].head.n_charges = 3;
	bad[3].head.n_charges = GM_ROWS + 1;
	bad[4].head.n_runs = 2;
	bad[5].head.n_runs = UINT32_MAX;
	bad[6].head.spec_bytes = 0;
	bad[7].head.spec_bytes = 3;
	bad[8].head.warning_bytes = 13;
	bad[9].runs[1].n_layers = UINT32_MAX;
	bad[10].texts[3] = 'x';
	bad[11].texts[15] = 'x';
	bad[12].head.n_layers = 0;
	for (uint32_t i = 0; i < 3; i++)
		bad[12].runs[i].n_layers = 0;
	for (size_t i = 0; i < 13; i++) {
		answer_with(&bad[i], sizeof(bad[i]));
		if (ask(&plan, rows, charges) != -EPROTO ||
		    plan.n_layers != 0) {
			NOTE("lie %zu is believed", i);
			wrong++;
		}
	}
	for (uint32_t bytes = sizeof(good.head); bytes < sizeof(good);
	     bytes++) {
		answer_with(&good, bytes);
		wrong += ask(&plan, rows, charges) != -EPROTO;
	}
	EQ(wrong, 0);
	answer_with(&good, sizeof(good));
	EQ(ask(&plan, rows, charges), 0);
}

static void a_refusal_says_what_is_missing(void)
{
	struct gm_control_plan_refusal refusal = {
		.refusal.text = "too large",
		.missing_bytes = 4711,
		.missing_row = 2,
	};
	struct gpumap_plan_charge charges[2];
	struct gpumap_plan plan;
	uint32_t rows[N_LAYERS];

	answer(-ENOSPC, &refusal, sizeof(refusal), sizeof(refusal));
	EQ(ask(&plan, rows, charges), -ENOSPC);
	STR(gpumap_refusal(map), "too large");
	EQ(plan.missing_bytes, 4711);
	EQ(plan.missing_row, 2);
	answer(-ETIMEDOUT, &refusal, sizeof(refusal), sizeof(refusal));
	EQ(ask(&plan, rows, charges), -ETIMEDOUT);
	EQ(plan.missing_bytes, 4711);
	/* Another agent's may be words alone. */
	answer(-ENOSPC, &refusal, sizeof(refusal.refusal),
	       sizeof(refusal.refusal));
	EQ(ask(&plan, rows, charges), -ENOSPC);
	STR(gpumap_refusal(map), "too large");
	EQ(plan.missing_bytes, 0);
	answer(-EINVAL, &refusal, sizeof(refusal), sizeof(refusal));
	EQ(ask(&plan, rows, charges), -EINVAL);
	EQ(plan.missing_bytes, 0);
}

static void nonsense_is_not_sent(void)
{
	struct gpumap_plan_request request = request_of();
	struct gpumap_plan plan = { .size = sizeof(plan) };
	uint32_t before = gm_get(&peer.requests);

	request.name = NULL;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -EINVAL);
	request = request_of();
	request.rows = NULL;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -EINVAL);
	request = request_of();
	request.n_layers = 0;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -EINVAL);
	request = request_of();
	request.n_caches = 0;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -EINVAL);
	request.n_caches = 8193;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -E2BIG);
	request = request_of();
	request.size = 4;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -EINVAL);
	request = request_of();
	plan.size = 4097;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -E2BIG);
	plan.size = 8;
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), -EINVAL);
	EQ(gm_get(&peer.requests), before);
}

/* ---- reservations -------------------------------------------------------- */

static void publish(uint32_t slot, const char *name, uint32_t flags)
{
	static const uint32_t rows[] = { 0 };
	static const struct gm_charge_image charge = { .row = 0 };
	const struct gm_layers layers = { .name = name,
					  .spec = "0:1",
					  .owner_uid = 5,
					  .flags = flags,
					  .n_layers = 1,
					  .n_rows = 1,
					  .published = 1000 + slot,
					  .rows = rows,
					  .charges = &charge };

	segment_layers(&file.segment, slot, &layers);
}

static void hold(uint32_t index, uint32_t slot, uint32_t pid, uint64_t later)
{
	struct gm_object object;
	struct gm_holder_image image = { .kind = GM_HOLDER_RESERVE,
					 .pid = pid };
	uint64_t words[8];

	gm_object_open(&file.segment.map, &file.segment.map.objects[slot].slot,
		       &object);
	image.unit = gm_seq_unit(object.word);
	image.version = object.image.version + later;
	image.slot = slot;
	memcpy(words, &image, sizeof(words));
	gm_seq_fill(file.segment.map.holders[index].w, words, 8);
}

static int next(uint32_t *cursor, struct gpumap_holder *holder)
{
	*holder = (struct gpumap_holder){ .size = sizeof(*holder) };
	return gpumap_holder_next(map, cursor, holder);
}

static void reservations_are_found(void)
{
	struct gpumap_holder holder;
	uint32_t cursor = 0;

	publish(10, "plain", 0);
	publish(11, "named", GM_OBJECT_COMMITTED);
	publish(12, "held", GM_OBJECT_COMMITTED | GM_OBJECT_HELD);
	publish(4000, "last", GM_OBJECT_COMMITTED | GM_OBJECT_HELD);
	hold(3, 12, 1, 1); /* another version's */
	hold(4, 12, 4242, 0);
	hold(GM_HOLDERS - 1, 4000, 4343, 0);
	EQ(next(&cursor, &holder), 1);
	STR(holder.name, "named");
	EQ(holder.uid, 5);
	EQ(holder.pid, 0);
	EQ(holder.since_ns, 1011);
	EQ(next(&cursor, &holder), 1);
	STR(holder.name, "held");
	EQ(holder.pid, 4242);
	EQ(holder.version, 1);
	EQ(next(&cursor, &holder), 1);
	STR(holder.name, "last");
	EQ(holder.pid, 4343);
	EQ(next(&cursor, &holder), 0);
	EQ(next(&cursor, &holder), 0);
}

TAP_CASE()
{
	if (!client_begin("plan"))
		return tap_done();
	the_request_says_it_all();
	the_answer_is_told_whole();
	arrays_may_be_too_small();
	lies_are_not_believed();
	a_refusal_says_what_is_missing();
	nonsense_is_not_sent();
	reservations_are_found();
	return client_end();
}
