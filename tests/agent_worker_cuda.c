/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * worker: gpumap-worker on a CUDA row, with a client made by hand.
 *
 * Under $CONTRACT_UNDER the cards are the stand-in's.  The worker loads the
 * driver by itself, as it would a real one.
 */

#include "agent/cuda/driver.h"
#include "tests/worker_row.h"

#define PAYLOAD (8 * MIB + 12)

static char uuid[64];

/* Run again under what gives a machine its cards. */
static void go_under(char **argv)
{
	const char *under = getenv("CONTRACT_UNDER");
	const char *top = getenv("abs_top_builddir");
	static char kernels[512], words[512];
	char *args[8];
	int n = 0;

	if (!under || !top)
		return;
	snprintf(words, sizeof(words), "%s", under);
	snprintf(kernels, sizeof(kernels),
		 "%s/tests/.libs/operators_kernels.so", top);
	for (char *w = strtok(words, " "); w && n < 6; w = strtok(NULL, " "))
		args[n++] = w;
	args[n++] = argv[0];
	args[n] = NULL;
	unsetenv("CONTRACT_UNDER");
	setenv("GPUMAP_FAKE_KERNELS", kernels, 1);
	execvp(args[0], args);
}

/* In a process of its own: a driver that is initialised does not survive a
 * fork.  Returns whether there is a card. */
static bool ask_uuid(void)
{
	static struct gm_driver driver;
	char why[GM_LIBRARY_WHY_BYTES];
	struct gm_cu_uuid id;
	int pair[2], status;
	pid_t child;
	ssize_t n;

	if (pipe(pair) < 0)
		return false;
	child = fork();
	if (child == 0) {
		char text[64] = "GPU-";
		int dev, at = 4;

		if (gm_driver_open(NULL, &driver, why) < 0 ||
		    driver.cuInit(0) != 0 || driver.cuDeviceGet(&dev, 0) != 0 ||
		    driver.cuDeviceGetUuid(&id, dev) != 0)
			_exit(1);
		for (int i = 0; i < 16; i++)
			at += snprintf(text + at, sizeof(text) - (size_t)at,
				       i == 4 || i == 6 || i == 8 || i == 10
					       ? "-%02x"
					       : "%02x",
				       (unsigned char)id.bytes[i]);
		_exit(write(pair[1], text, sizeof(text)) != sizeof(text));
	}
	close(pair[1]);
	n = read(pair[0], uuid, sizeof(uuid));
	close(pair[0]);
	waitpid(child, &status, 0);
	return n == sizeof(uuid) && status == 0;
}

static void cuda_row(struct row *row)
{
	row_make(row);
	row->more[0] = "--backend";
	row->more[1] = "cuda";
	row->more[2] = "--device";
	row->more[3] = uuid;
	/* A machine that stands in for one is its maker's. */
	row->more[4] = "--uid";
	row->more[5] = "0";
	row->more[6] = "--gid";
	row->more[7] = "0";
}

static struct gm_entry copy(const struct hand_client *c, uint64_t dst_buffer,
			    uint64_t dst, uint64_t src_buffer, uint64_t src,
			    uint64_t n)
{
	struct gm_entry e = hand_copy(c, dst, src, n);

	e.dst_buffer = dst_buffer;
	e.src_buffer = src_buffer;
	return e;
}

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
	e[2] = copy(c, a, 0, 0, 0, PAYLOAD);
	e[3] = copy(c, b, 0, a, 0, PAYLOAD);
	e[4] = copy(c, 0, 16 * MIB, b, 0, PAYLOAD);
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
	e[0] = copy(c, 0, 0, b, PAYLOAD - 1, 2);
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

static void a_spare_waits_for_its_turn(void)
{
	struct gm_wire wire;
	struct row row;

	cuda_row(&row);
	row.more[8] = "--spare";
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

int main(int argc, char **argv)
{
	(void)argc;
	go_under(argv);
	if (!row_can_run())
		return tap_done();
	if (!ask_uuid()) {
		LACK("cuda", 1, "no card");
		return tap_done();
	}
	a_card_is_served();
	a_spare_waits_for_its_turn();
	return tap_done();
}
