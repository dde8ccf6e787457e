/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* worker: gpumap-worker on a CUDA row, with a client made by hand. */

#include "tests/support/stand_in.h"
#include "tests/support/worker/worker_cuda.h"

#define PAYLOAD (8 * MIB + 12)

static void fill_with_noise(char *at, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		at[i] = (char)(i * 2654435761u >> 13);
}

/* Into the device, across it, and back: batches, so that several are under way
 * and the order shows. */
static void bytes_go_around(struct hand_client *c, struct row *row)
{
	uint64_t a = hand_handle(ROW, 1), b = hand_handle(ROW, 2);
	struct gm_entry e[6];
	uint32_t pos;
	int32_t status = 1;

	fill_with_noise(c->memory, PAYLOAD);
	e[0] = hand_alloc(c, a, PAYLOAD, 0);
	e[1] = hand_alloc(c, b, PAYLOAD, 0);
	e[2] = hand_copy_between(c, a, 0, 0, 0, PAYLOAD);
	e[3] = hand_copy_between(c, b, 0, a, 0, PAYLOAD);
	e[4] = hand_copy_between(c, 0, 16 * MIB, b, 0, PAYLOAD);
	e[5] = hand_nop(c);
	hand_submit(c, e, 6);
	for (uint32_t i = 0; i < 6; i++) {
		if (!OK(hand_wait(c, &pos, &status)))
			return;
		EQ(pos, i);
		EQ(status, 0);
	}
	EQ(memcmp(c->memory, c->memory + 16 * MIB, PAYLOAD), 0);
	EQ(gm_get(&row->journal->completed), 6);
	e[0] = hand_free(c, a);
	EQ(hand_do(c, &e[0]), 0);
	EQ(hand_do(c, &e[2]), -ESTALE);
	e[0] = hand_copy_between(c, 0, 0, b, PAYLOAD - 1, 2);
	EQ(hand_do(c, &e[0]), -ERANGE);
}

static void a_card_is_served(void)
{
	struct hand_client c;
	struct gm_wire wire;
	struct row row;

	cuda_row(&row);
	if (!OK(row_start(&row, false))) {
		NOTE("%s", row.failed);
		return;
	}
	NOTE("ready: %s", row.ready);
	OK(strstr(row.ready, "init_ms=") != NULL);
	hand_open(&c, 1, 0, ROW, 16, 32 * MIB);
	EQ(row_attach(&row, &c), 0);
	bytes_go_around(&c, &row);
	row_tell_about(&row, GM_WIRE_DETACH, &c);
	EQ(row_hear(&row, &wire), GM_WIRE_DETACHED);
	hand_close(&c, ROW);
	EQ(row_drain(&row), 0);
	row_drop(&row);
}

static void a_standby_waits_for_its_turn(void)
{
	struct gm_wire wire;
	struct row row;

	cuda_row(&row);
	row.more[8] = "--standby";
	row_launch(&row, false);
	EQ(row_hear(&row, &wire), GM_WIRE_STANDBY);
	OK(strstr(wire.text, "prepare_ms=") != NULL);
	EQ(gm_get(&row.journal->beat), 0);
	row_tell_about(&row, GM_WIRE_GO, NULL);
	EQ(row_hear(&row, &wire), GM_WIRE_READY);
	OK(gm_get(&row.journal->beat) != 0);
	EQ(row_drain(&row), 0);

	/* One that is not needed goes quietly. */
	row_launch(&row, false);
	EQ(row_hear(&row, &wire), GM_WIRE_STANDBY);
	close(row.pair);
	row.pair = -1;
	EQ(row_ended(&row), 0);
	row_drop(&row);
}

TAP_CASE_ARGS(argc, argv)
{
	(void)argc;
	stand_in_exec(argv);
	if (!row_can_run())
		return tap_done();
	if (!ask_uuid()) {
		LACK("cuda", 1, "no card");
		return tap_done();
	}
	a_card_is_served();
	a_standby_waits_for_its_turn();
	return tap_done();
}
