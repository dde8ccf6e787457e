/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* plan, who: what is asked of the agent, what is believed of its answer, and
 * what the segment says of reservations. */

#include <gpumap/plan.h>

#include "tests/support/peer/peer_session.h"

#define N_LAYERS 5u
#define GIB      (UINT64_C(1) << 30)

/* ---- answers ------------------------------------------------------------- */

struct room {
	struct gm_room_reply head;
	struct gm_room_row rows[3];
};

/* The answer to PUBLISH: the bytes that are left of two rows. */
struct reply {
	struct gm_publish_reply head;
	uint64_t left[2];
};

/* The answer to RESERVE. */
struct reserved {
	struct gm_reserve_reply head;
	struct gm_reserved_row rows[2];
};

static const struct reply good_reply = { { .version = 9 }, { 7, 8 } };
static const struct reserved good_reserved = {
	{ .version = 3, .n = 2 },
	{ { .row = 2, .bytes = 4, .left_bytes = 5 }, { .row = 0, .bytes = 6 } }
};

static struct room good_room(void)
{
	struct room room = { .head = { .rows_given = 4712, .n = 3 } };

	for (uint32_t i = 0; i < 3; i++)
		room.rows[i] = (struct gm_room_row){
			.row = i,
			.flags = GM_ROOM_CUDA,
			.cc_major = 9,
			.units = 132,
			.total_bytes = 80 * GIB,
			.free_bytes = 80 * GIB,
			.avail_bytes = 80 * GIB,
			.most_bytes = UINT64_MAX,
			.lasting_bytes = 80 * GIB,
		};
	return room;
}

/* The head and what is left of @bytes as a tail. */
static void let_room(const struct room *room, uint32_t bytes)
{
	pthread_mutex_lock(&peer.plan_lock);
	memcpy(peer.room, room, bytes);
	peer.room_body = sizeof(room->head);
	peer.room_tail = bytes - peer.room_body;
	peer.n_rooms = 0;
	pthread_mutex_unlock(&peer.plan_lock);
}

/* @body bytes of body, what is left of @bytes is the tail. */
static void answer(int status, const void *reply, size_t body, size_t bytes)
{
	pthread_mutex_lock(&peer.plan_lock);
	peer.plan_status = status;
	peer.plan_body = (uint32_t)body;
	peer.plan_tail = (uint32_t)(bytes - body);
	memcpy(peer.plan, reply, bytes);
	pthread_mutex_unlock(&peer.plan_lock);
}

static void answer_well(void)
{
	const struct room room = good_room();

	let_room(&room, sizeof(room));
	answer(0, &good_reply, sizeof(good_reply.head), sizeof(good_reply));
}

static struct gpumap_plan_request request_of(void)
{
	static const uint64_t sizes[N_LAYERS] = { 1, 2, 3, 4, 5 };
	static const uint32_t rows[] = { 1, 0 };
	static const struct gpumap_layer_cache caches[] = {
		{ .n_layers = 4, .n_heads = 1, .token_elements = 1 },
		{ .n_layers = 1, .n_heads = 6, .state_elements = 7 },
	};

	return (struct gpumap_plan_request){
		.size = sizeof(struct gpumap_plan_request),
		.name = "mine",
		.flags = GPUMAP_PLAN_COMMIT,
		.setting = GPUMAP_SETTING_PIPELINE,
		.text = "3,2",
		.rows = rows,
		.n_rows = 2,
		.n_layers = N_LAYERS,
		.layer_bytes = sizes,
		.other_bytes = 77,
		.caches = caches,
		.n_caches = 2,
		.max_seq_len = 4096,
		.compute_dtype = GPUMAP_DTYPE_BF16,
	};
}

static struct gpumap_plan_request reservation_of(void)
{
	static const uint64_t bytes[] = { 4, 6 };
	static const uint32_t rows[] = { 2, 0 };

	return (struct gpumap_plan_request){
		.size = sizeof(struct gpumap_plan_request),
		.name = "kept",
		.flags = GPUMAP_PLAN_COMMIT | GPUMAP_PLAN_HELD,
		.setting = GPUMAP_SETTING_RESERVE,
		.rows = rows,
		.n_rows = 2,
		.n_layers = 2,
		.layer_bytes = bytes,
	};
}

static int ask(const struct gpumap_plan_request *request,
	       struct gpumap_plan *plan, uint32_t rows[N_LAYERS],
	       struct gpumap_charge charges[2])
{
	*plan = (struct gpumap_plan){ .size = sizeof(*plan) };
	return gpumap_plan_make(map, request, plan, rows, N_LAYERS, charges, 2);
}

static int ask_any(const struct gpumap_plan_request *request)
{
	struct gpumap_charge charges[2];
	struct gpumap_plan plan;
	uint32_t rows[N_LAYERS];

	return ask(request, &plan, rows, charges);
}

static void asked(void *ret_body, size_t bytes)
{
	pthread_mutex_lock(&peer.plan_lock);
	memcpy(ret_body, peer.asked, bytes);
	pthread_mutex_unlock(&peer.plan_lock);
}

/* ---- models -------------------------------------------------------------- */

static void the_request_says_it_all(void)
{
	const struct gpumap_plan_request request = request_of();
	struct {
		struct gm_publish body;
		struct gm_charge_image charges[2];
		struct gm_plan_run runs[2];
		uint64_t bytes[N_LAYERS];
		char spec[8];
	} said;

	answer_well();
	EQ(ask_any(&request), 0);
	asked(&said, sizeof(said));
	STR(said.body.map.name, "mine");
	EQ(said.body.map.flags, GPUMAP_PLAN_COMMIT);
	EQ(said.body.setting, GPUMAP_SETTING_PIPELINE);
	EQ(said.body.rows_given, 4712);
	EQ(said.body.n_layers, N_LAYERS);
	EQ(said.body.n_charges, 2);
	EQ(said.body.n_runs, 2);
	EQ(said.body.n_bytes, N_LAYERS);
	EQ(said.body.n_rows, 0);
	EQ(said.body.other_bytes, 77);
	EQ(said.body.least_bytes, 77 + 15);
	EQ(said.body.max_seq_len, 4096);
	EQ(said.body.max_batch_size, 1);
	EQ(said.body.compute_dtype, GPUMAP_DTYPE_BF16);
	EQ(said.charges[0].row, 1);
	EQ(said.charges[0].n_layers, 3);
	EQ(said.charges[0].weight_bytes, 77 + 1 + 2 + 3);
	EQ(said.charges[1].row, 0);
	EQ(said.charges[1].weight_bytes, 4 + 5);
	EQ(said.runs[0].row, 1);
	EQ(said.runs[0].n_layers, 3);
	EQ(said.runs[1].row, 0);
	EQ(said.runs[1].n_layers, 2);
	EQ(said.bytes[4], 5);
	EQ(said.body.spec_bytes, sizeof("1:3;0:2"));
	STR(said.spec, "1:3;0:2");
}

static void the_answer_is_told_whole(void)
{
	static const uint32_t want[N_LAYERS] = { 1, 1, 1, 0, 0 };
	struct gpumap_plan_request request = request_of();
	struct gpumap_charge charges[2];
	struct gpumap_plan plan;
	uint32_t rows[N_LAYERS];

	answer_well();
	EQ(ask(&request, &plan, rows, charges), 0);
	STR(gpumap_refusal(map), "");
	OK(memcmp(rows, want, sizeof(want)) == 0);
	EQ(plan.n_layers, N_LAYERS);
	EQ(plan.n_charges, 2);
	EQ(plan.base_row, 1);
	EQ(plan.version, 9);
	EQ(plan.compute_dtype, GPUMAP_DTYPE_BF16);
	EQ(plan.missing_bytes, 0);
	STR(plan.spec, "1:3;0:2");
	EQ(charges[0].row, 1);
	EQ(charges[0].left_bytes, 7);
	EQ(charges[1].n_layers, 2);
	EQ(charges[1].left_bytes, 8);

	/* A caller of an older header gets what that has. */
	plan = (struct gpumap_plan){ .size = offsetof(struct gpumap_plan,
						      warnings) };
	EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), 0);
	STR(plan.spec, "1:3;0:2");

	/* A plan that is only asked for is not published. */
	answer(-EPERM, &good_reply, 0, 0);
	request.flags = 0;
	EQ(ask_any(&request), 0);
}

/* The plan is told, and nothing is written past the end of an array. */
static void arrays_may_be_too_small(void)
{
	struct gpumap_plan_request request = request_of();
	struct gpumap_charge charges[2] = { { .row = 99 }, { .row = 99 } };
	struct gpumap_plan plan = { .size = sizeof(plan) };
	uint32_t rows[N_LAYERS] = { 99, 99, 99, 99, 99 };

	answer_well();
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
	const struct gpumap_plan_request request = request_of();
	struct room room = good_room();

	answer_well();
	room.head.n = 4;
	let_room(&room, sizeof(room));
	EQ(ask_any(&request), -EPROTO);
	room.head.n = GM_ROWS + 1;
	let_room(&room, sizeof(room));
	EQ(ask_any(&request), -EPROTO);
	room = good_room();
	let_room(&room, sizeof(room) - 8);
	EQ(ask_any(&request), -EPROTO);
	room.rows[1].row = GM_ROWS;
	let_room(&room, sizeof(room));
	EQ(ask_any(&request), -EPROTO);
	answer_well();
	for (size_t cut = 8; cut <= 16; cut += 8) {
		answer(0, &good_reply, sizeof(good_reply.head),
		       sizeof(good_reply) - cut);
		EQ(ask_any(&request), -EPROTO);
	}
	answer_well();
	EQ(ask_any(&request), 0);
}

/* One map is made for each -EAGAIN.  One that a strategy places, and that is
 * not to wait, is after the second made to for two seconds. */
static void a_plan_that_came_too_late_is_made_again(void)
{
	struct gpumap_plan_request request = request_of();
	struct gm_publish body;

	request.wait_ns = UINT64_C(3600000000000);
	answer_well();
	gm_put(&peer.requests, 0);
	peer.plan_agains = 5;
	EQ(ask_any(&request), 0);
	EQ(peer.n_rooms, 6);
	asked(&body, sizeof(body));
	OK(body.map.wait_ns > request.wait_ns / 2 &&
	   body.map.wait_ns <= request.wait_ns);

	request.wait_ns = 0;
	answer_well();
	peer.plan_agains = 1;
	EQ(ask_any(&request), 0);
	asked(&body, sizeof(body));
	EQ(body.map.wait_ns, 0);
	answer_well();
	peer.plan_agains = 2;
	EQ(ask_any(&request), -EAGAIN);
	request.setting = GPUMAP_SETTING_AUTO;
	request.text = NULL;
	answer_well();
	answer(0, &good_reply, sizeof(good_reply.head), sizeof(good_reply) - 8);
	peer.plan_agains = 2;
	EQ(ask_any(&request), 0);
	EQ(peer.n_rooms, 3);
	asked(&body, sizeof(body));
	OK(body.map.wait_ns > 0 && body.map.wait_ns <= 2000000000);
	answer(-ETIMEDOUT, &good_reply, 0, 0);
	peer.plan_agains = 2;
	EQ(ask_any(&request), -EAGAIN);
	/* One that reserves nothing has no place to wait for. */
	answer_well();
	request.flags = GPUMAP_PLAN_PUBLISH;
	peer.plan_agains = 2;
	EQ(ask_any(&request), -EAGAIN);
}

/* Without room it waits for as much as it could have one day, and goes when its
 * turn brings another error. */
static void a_model_without_room_waits_for_it(void)
{
	struct gpumap_plan_request request = request_of();
	struct room room = good_room();
	struct gm_publish body;

	request.setting = GPUMAP_SETTING_AUTO;
	request.text = NULL;
	request.rows = NULL;
	request.n_rows = 0;
	request.wait_ns = UINT64_C(7000000000);
	for (uint32_t i = 0; i < 3; i++)
		room.rows[i].avail_bytes = 1000;
	answer_well();
	let_room(&room, sizeof(room));
	answer(-EPERM, &good_reply, 0, 0);
	EQ(ask_any(&request), -EPERM);
	asked(&body, sizeof(body));
	EQ(body.n_runs, 0);
	EQ(body.n_layers, 0);
	EQ(body.n_charges, 1);
	EQ(body.n_rows, 3);
	EQ(body.least_bytes, 77 + 15);
	answer(-ETIMEDOUT, &good_reply, 0, 0);
	EQ(ask_any(&request), -ETIMEDOUT);
	OK(strncmp(gpumap_refusal(map), "7 s later still: ", 17) == 0);
	OK(strlen(gpumap_refusal(map)) > 30);
}

static void a_refusal_says_what_is_missing(void)
{
	struct gm_publish_refusal refusal = {
		.refusal.text = "too large",
		.missing_bytes = 4711,
		.missing_row = 2,
	};
	const struct gpumap_plan_request asks[] = { request_of(),
						    reservation_of() };
	struct gpumap_charge charges[2];
	struct gpumap_plan plan;
	uint32_t rows[N_LAYERS];

	answer_well();
	for (int i = 0; i < 2; i++) {
		answer(-ENOSPC, &refusal, sizeof(refusal), sizeof(refusal));
		EQ(ask(&asks[i], &plan, rows, charges), -ENOSPC);
		STR(gpumap_refusal(map), "too large");
		EQ(plan.missing_bytes, 4711);
		EQ(plan.missing_row, 2);
		answer(-ETIMEDOUT, &refusal, sizeof(refusal), sizeof(refusal));
		EQ(ask(&asks[i], &plan, rows, charges), -ETIMEDOUT);
		EQ(plan.missing_bytes, 4711);
		/* Another agent's may be words alone. */
		answer(-ENOSPC, &refusal, sizeof(refusal.refusal),
		       sizeof(refusal.refusal));
		EQ(ask(&asks[i], &plan, rows, charges), -ENOSPC);
		STR(gpumap_refusal(map), "too large");
		EQ(plan.missing_bytes, 0);
		answer(-EINVAL, &refusal, sizeof(refusal), sizeof(refusal));
		EQ(ask(&asks[i], &plan, rows, charges), -EINVAL);
		EQ(plan.missing_bytes, 0);
	}
}

static void nonsense_is_not_sent(void)
{
	struct gpumap_plan_request request = request_of();
	struct gpumap_plan plan = { .size = sizeof(plan) };
	const uint32_t twice[] = { 1, 1 };
	uint32_t before = gm_get(&peer.requests);

#define REFUSED(error, of, change)                                           \
	do {                                                                 \
		request = of();                                              \
		change;                                                      \
		EQ(gpumap_plan_make(map, &request, &plan, NULL, 0, NULL, 0), \
		   error);                                                   \
		if (!OK(gpumap_refusal(map)[0] != '\0') ||                   \
		    gm_get(&peer.requests) != before)                        \
			NOTE("%s", #change);                                 \
	} while (0)
	REFUSED(-EINVAL, request_of, request.name = NULL);
	REFUSED(-EINVAL, request_of, request.rows = NULL);
	REFUSED(-EINVAL, request_of, request.rows = twice);
	REFUSED(-EINVAL, request_of, request.n_layers = 0);
	REFUSED(-EINVAL, request_of, request.n_layers = 65537);
	REFUSED(-EINVAL, request_of, request.n_caches = 0);
	REFUSED(-E2BIG, request_of, request.n_caches = 8193);
	REFUSED(-EINVAL, request_of, request.n_caches = 1);
	REFUSED(-EINVAL, request_of, request.tied_bytes = 78);
	REFUSED(-EINVAL, request_of, request.setting = 0);
	REFUSED(-EINVAL, request_of, request.strategy = 99);
	REFUSED(-EINVAL, request_of, request.engine = 99);
	REFUSED(-EINVAL, request_of, request.state_bytes = 9);
	REFUSED(-EINVAL, request_of,
		request.compute_dtype = GPUMAP_DTYPE_F8_E5M2);
	REFUSED(-EINVAL, request_of, request.owner_uid = 1);
	REFUSED(-EINVAL, request_of, request.size = 4);
	REFUSED(-EINVAL, reservation_of, request.layer_bytes = NULL);
	REFUSED(-EINVAL, reservation_of, request.other_bytes = 1);
	REFUSED(-EINVAL, reservation_of, request.text = "0:1");
	REFUSED(-E2BIG, request_of, plan.size = 4097);
	REFUSED(-EINVAL, request_of, plan.size = 8);
#undef REFUSED
	EQ(gm_get(&peer.requests), before);
}

/* ---- bytes --------------------------------------------------------------- */

static void a_reservation_is_one_request(void)
{
	const struct gpumap_plan_request request = reservation_of();
	struct gpumap_charge charges[2];
	struct gpumap_plan plan;
	uint32_t rows[N_LAYERS];
	struct {
		struct gm_reserve_ask body;
		uint64_t bytes[2];
		uint32_t rows[2];
	} said;

	answer_well();
	answer(0, &good_reserved, sizeof(good_reserved.head),
	       sizeof(good_reserved));
	EQ(ask(&request, &plan, rows, charges), 0);
	EQ(peer.n_rooms, 0);
	asked(&said, sizeof(said));
	STR(said.body.map.name, "kept");
	EQ(said.body.n_bytes, 2);
	EQ(said.body.n_rows, 2);
	EQ(said.bytes[1], 6);
	EQ(said.rows[0], 2);
	EQ(plan.n_layers, 2);
	EQ(plan.version, 3);
	EQ(plan.base_row, 2);
	STR(plan.spec, "2:1;0:1");
	EQ(rows[0], 2);
	EQ(rows[1], 0);
	EQ(charges[0].weight_bytes, 4);
	EQ(charges[0].left_bytes, 5);
	EQ(charges[1].n_layers, 1);
}

static void lies_of_reservations_are_not_believed(void)
{
	const struct gpumap_plan_request request = reservation_of();
	static const uint32_t lies[] = { 0, 1, 3, GM_ROWS + 1, UINT32_MAX };
	struct reserved bad = good_reserved;

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		bad.head.n = lies[i];
		answer(0, &bad, sizeof(bad.head), sizeof(bad));
		EQ(ask_any(&request), -EPROTO);
	}
	answer(0, &good_reserved, sizeof(bad.head), sizeof(bad) - 8);
	EQ(ask_any(&request), -EPROTO);
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
	a_plan_that_came_too_late_is_made_again();
	a_model_without_room_waits_for_it();
	a_reservation_is_one_request();
	lies_of_reservations_are_not_believed();
	a_refusal_says_what_is_missing();
	nonsense_is_not_sent();
	reservations_are_found();
	return client_end();
}
