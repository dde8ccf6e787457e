/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* ledger: what committed maps reserve, who may have how much, maps that a
 * process's life holds, and what the next agent makes of all this. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/daemon/daemon.h"
#include "dice.h"
#include "gpumap.h"
#include "shm/rows.h"
#include "tap.h"

#define OTHER 54321u /* a uid that is neither root's nor ours */
#define ROWS  3u
#define TOTAL UINT64_C(1000) /* bytes of each row */

static struct gm_daemon *d;
static char instance[48], why[GM_WHY_BYTES];

/* ---- an agent's inside, without the agent -------------------------------- */

/* What the segment holds becomes what we know, as at an agent's start. */
static bool take_over(void)
{
	struct gm_past *past = malloc(sizeof(*past));
	bool good;

	good = past != NULL &&
	       gm_segment_open(instance, 16 << 20, past, why, &d->segment) == 0;
	if (good) {
		d->directory.heap = past->heap;
		memcpy(d->directory.objects, past->objects,
		       sizeof(past->objects));
		memcpy(d->directory.rows, past->rows, sizeof(past->rows));
		memcpy(d->holders.table, past->holders, sizeof(past->holders));
	}
	free(past);
	return good && gm_holders_adopt(d) == 0;
}

/* As if killed: whatever is private is gone. */
static void die(void)
{
	gm_holders_exit(d);
	gm_ledger_exit(d);
	gm_heap_exit(&d->directory.heap);
	gm_segment_close(&d->segment);
	memset(&d->directory, 0, sizeof(d->directory));
	memset(&d->holders, 0, sizeof(d->holders));
	memset(&d->ledger, 0, sizeof(d->ledger));
}

static bool come_back(void)
{
	return OK(take_over()) && OK(d->segment.adopted) &&
	       EQ(gm_ledger_adopt(d), 0);
}

static void make_rows(void)
{
	for (uint32_t row = 0; row < ROWS; row++) {
		struct gm_device *device = calloc(1, sizeof(*device));

		if (device == NULL)
			exit(99);
		device->present = true;
		device->facts.row = row;
		device->facts.uuid[0] = (uint8_t)(row + 1);
		device->facts.kind = GPUMAP_DEVICE_HOST;
		device->facts.total_bytes = TOTAL;
		snprintf(device->facts.object.name, GM_NAME_BYTES, "row %u",
			 row);
		device->moving.state = GPUMAP_DEVICE_READY;
		device->moving.free_bytes = TOTAL;
		d->devices.of[row] = device;
		d->devices.n = row + 1;
		gm_rows_move(&d->segment.map.rows[row], &device->moving);
		gm_publish_row(d, &device->facts);
	}
	gm_put(&d->segment.map.header->rows_used, ROWS);
}

static uint64_t reserved(uint32_t row)
{
	struct gm_moving_image moving;

	if (gm_rows_moving(&d->segment.map, row, &moving) != 0)
		return UINT64_MAX;
	return moving.reserved_bytes;
}

static bool is_published(const char *name)
{
	return gm_publish_find(d, GM_KIND_LAYERS, name) != NULL;
}

/* ---- maps ---------------------------------------------------------------- */

static struct gm_charge_image charge_of(uint32_t row, uint64_t bytes)
{
	/* Every kind of charge counts. */
	return (struct gm_charge_image){ .row = row,
					 .weight_bytes = bytes / 2,
					 .kv_bytes = bytes - bytes / 2 -
						     bytes / 4 - bytes / 8,
					 .activation_bytes = bytes / 4,
					 .reserve_bytes = bytes / 8 };
}

static struct gm_layers map_of(const char *name, uint32_t uid, uint32_t flags,
			       const struct gm_charge_image *charges,
			       uint32_t n)
{
	static uint32_t rows[GM_LAYERS_MAX];

	return (struct gm_layers){ .name = name,
				   .spec = "0:1",
				   .owner_uid = uid,
				   .flags = flags,
				   .n_layers = 1,
				   .n_rows = n,
				   .rows = rows,
				   .charges = charges };
}

static int commit(const char *name, uint32_t uid, uint32_t row, uint64_t bytes)
{
	struct gm_charge_image charge = charge_of(row, bytes);
	struct gm_layers layers =
		map_of(name, uid, GM_OBJECT_COMMITTED, &charge, 1);
	uint64_t version;

	return gm_publish_layers(d, &layers, why, &version);
}

static int release(const char *name)
{
	return gm_publish_remove(d, GM_KIND_LAYERS, name, 0, why);
}

/* The steps of a held map, up to the one that is said. */
enum step { KEPT, SHOWN };

static int hold(const char *name, pid_t pid, uint32_t row, uint64_t bytes,
		enum step last)
{
	struct gm_charge_image charge = charge_of(row, bytes);
	struct gm_layers layers = map_of(
		name, 0, GM_OBJECT_COMMITTED | GM_OBJECT_HELD, &charge, 1);
	struct gm_put put;
	uint32_t place;
	int ret = gm_holders_hold(d, pid, 0, why, &place);

	if (ret != 0)
		return ret;
	ret = gm_publish_prepare(d, &layers, why, &put);
	if (ret != 0) {
		gm_holders_let_go(d, place);
		return ret;
	}
	gm_holders_keep(d, place, &put.block);
	if (last == SHOWN)
		gm_publish_show(d, &put);
	else
		free(put.promise); /* who dies now gives nothing back */
	return 0;
}

static uint32_t entries(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		uint32_t kind =
			(uint32_t)gm_get(&d->segment.map.holders[i].w[0]);

		n += kind != GM_HOLDER_FREE;
	}
	return n;
}

static pid_t start_child(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void stop_when_free(struct gm_timer *timer)
{
	if (entries() != 0)
		gm_timer_set(&d->loop, timer, gm_loop_now() + 1000000);
	else
		gm_loop_stop(&d->loop);
}

/* Let the kernel's word of deaths come in, until no entry is left. */
static void hear_of_deaths(void)
{
	struct gm_timer timer = { .fired = stop_when_free };

	d->loop.stop = false; /* again */
	gm_timer_set(&d->loop, &timer, gm_loop_now());
	EQ(gm_loop_run(&d->loop), 0);
	gm_timer_stop(&d->loop, &timer);
}

/* ---- promises ------------------------------------------------------------ */

static void promises_are_summed_up(void)
{
	uint32_t before = gm_get(&d->segment.map.header->generation);
	struct gm_charge_image charges[] = { charge_of(0, 100),
					     charge_of(2, 250) };
	struct gm_layers layers =
		map_of("both", 0, GM_OBJECT_COMMITTED, charges, 2);
	uint64_t version;

	EQ(gm_publish_layers(d, &layers, why, &version), 0);
	EQ(reserved(0), 100);
	EQ(reserved(1), 0);
	EQ(reserved(2), 250);
	OK(gm_get(&d->segment.map.header->generation) != before);
	EQ(commit("one", 0, 0, 301), 0);
	EQ(reserved(0), 401);
	EQ(gm_ledger_avail(d, 0, GM_LEDGER_NOBODY), TOTAL - 401);

	/* One that promises nothing may charge what it likes. */
	layers.flags = 0;
	layers.name = "free";
	charges[0].weight_bytes = 5 * TOTAL;
	EQ(gm_publish_layers(d, &layers, why, &version), 0);
	EQ(reserved(0), 401);
	EQ(release("free"), 0);

	EQ(release("both"), 0);
	EQ(reserved(0), 301);
	EQ(reserved(2), 0);
	EQ(release("one"), 0);
	EQ(reserved(0), 0);
}

static void too_much_is_refused(void)
{
	uint32_t heap;

	EQ(commit("a", 0, 1, 600), 0);
	heap = d->directory.heap.n_free;
	EQ(commit("b", 0, 1, 401), -ENOSPC);
	STR(why, "row 1 has 400 bytes that are promised to nobody, the map "
		 "takes 401: release one that gpumapctl who shows, or ask for "
		 "less");
	OK(!is_published("b"));
	EQ(d->directory.heap.n_free, heap);
	EQ(reserved(1), 600);
	EQ(commit("b", 0, 1, 400), 0);
	EQ(reserved(1), TOTAL);

	/* What others take of the row is nobody's to promise. */
	EQ(release("b"), 0);
	d->devices.of[1]->moving.free_bytes = 700;
	EQ(commit("b", 0, 1, 101), -ENOSPC);
	EQ(commit("b", 0, 1, 100), 0);
	d->devices.of[1]->moving.free_bytes = 0;
	EQ(commit("c", 0, 1, 1), -ENOSPC);
	/* What was promised stays promised, and its own to have again. */
	EQ(commit("a", 0, 1, 600), 0);
	EQ(commit("a", 0, 1, 601), -ENOSPC);
	EQ(commit("a", 0, 1, 200), 0);
	EQ(reserved(1), 300);
	d->devices.of[1]->moving.free_bytes = TOTAL;
	EQ(release("a"), 0);
	EQ(release("b"), 0);
}

static void replacing_moves_the_promise(void)
{
	EQ(commit("m", 0, 0, 900), 0);
	EQ(commit("m", 0, 0, 1000), 0);
	EQ(reserved(0), 1000);
	EQ(commit("m", 0, 1, 1000), 0);
	EQ(reserved(0), 0);
	EQ(reserved(1), 1000);
	EQ(commit("m", 0, 1, 1001), -ENOSPC);
	EQ(reserved(1), 1000);
	OK(is_published("m"));
	EQ(release("m"), 0);
	EQ(reserved(1), 0);
}

static void lost_rows_take_nothing(void)
{
	struct gm_device *device = d->devices.of[2];

	EQ(commit("m", 0, 2, 10), 0);
	device->moving.state = GPUMAP_DEVICE_FAILED;
	EQ(commit("n", 0, 2, 10), -ENODEV);
	OK(strstr(why, "row 2 is not there, is lost or has failed") != NULL);
	EQ(commit("m", 0, 2, 10), -ENODEV);
	EQ(gm_ledger_avail(d, 2, GM_LEDGER_NOBODY), 0);
	device->moving.state = GPUMAP_DEVICE_READY;
	device->present = false;
	EQ(commit("n", 0, 2, 10), -ENODEV);
	device->present = true;
	EQ(commit("n", 0, ROWS, 10), -ENODEV);
	EQ(reserved(2), 10);
	EQ(release("m"), 0);
}

static void sums_do_not_wrap(void)
{
	EQ(commit("m", 0, 0, UINT64_MAX), -EOVERFLOW);
	STR(why, "row 0 is charged for 2^63 bytes or more");
	EQ(commit("m", 0, 0, (uint64_t)INT64_MAX + 1), -EOVERFLOW);
	EQ(commit("m", 0, 0, INT64_MAX), -ENOSPC);
	EQ(reserved(0), 0);
}

static void uids_have_a_share(void)
{
	d->config.reserve_per_uid = 30;
	EQ(commit("a", OTHER, 0, 200), 0);
	EQ(commit("b", OTHER, 0, 101), -EDQUOT);
	STR(why, "uid 54321 has reserved 200 bytes of row 0 and may have 300: "
		 "release a map, or raise limits.reserve-per-uid");
	EQ(commit("b", OTHER, 1, 300), 0);
	EQ(commit("a", OTHER, 0, 300), 0);
	EQ(commit("c", OTHER + 1, 0, 300), 0);
	EQ(commit("d", 0, 0, 400), 0);
	d->config.reserve_per_uid = 100;
	EQ(release("a"), 0);
	EQ(release("b"), 0);
	EQ(release("c"), 0);
	EQ(release("d"), 0);
}

static void restored_maps_need_not_be_free_now(void)
{
	struct gm_charge_image charge = charge_of(0, 600);
	struct gm_layers layers =
		map_of("r", OTHER, GM_OBJECT_COMMITTED, &charge, 1);

	d->devices.of[0]->moving.free_bytes = 0;
	d->config.reserve_per_uid = 1;
	EQ(gm_publish_restore(d, &layers, 7, why), 0);
	EQ(reserved(0), 600);
	layers.name = "s";
	EQ(gm_publish_restore(d, &layers, 7, why), -ENOSPC);
	OK(!is_published("s"));
	d->devices.of[0]->moving.free_bytes = TOTAL;
	d->config.reserve_per_uid = 100;
	EQ(release("r"), 0);
}

/* ---- held maps ----------------------------------------------------------- */

static void death_withdraws(void)
{
	uint32_t heap = d->directory.heap.n_free;
	pid_t child = start_child();
	int fd = dup(0), after;
	struct gm_pin pin;

	close(fd);
	EQ(commit("named", 0, 0, 100), 0);
	for (int i = 0; i < 5; i++) {
		char name[8];

		snprintf(name, sizeof(name), "h%d", i);
		EQ(hold(name, child, 1, 100, SHOWN), 0);
	}
	EQ(gm_holders_pin(d, child, 0, GM_KIND_LAYERS, "h0", why, &pin), 0);
	EQ(gm_holders_unpin(d, child, pin.claim - 1), -ENOENT);
	EQ(entries(), 6);
	EQ(reserved(1), 500);
	end_child(child);
	hear_of_deaths();
	OK(!is_published("h0") && !is_published("h4"));
	OK(is_published("named"));
	EQ(reserved(0), 100);
	EQ(reserved(1), 0);
	EQ(release("named"), 0);
	EQ(d->directory.heap.n_free, heap);
	after = dup(0);
	close(after);
	EQ(after, fd);
}

static void what_is_replaced_is_held_no_more(void)
{
	pid_t child = start_child(), second = start_child();

	EQ(hold("m", child, 0, 100, SHOWN), 0);
	EQ(hold("m", second, 0, 200, SHOWN), 0);
	EQ(entries(), 1);
	EQ(reserved(0), 200);
	EQ(commit("m", 0, 0, 300), 0);
	EQ(entries(), 0);
	EQ(hold("n", second, 0, 50, SHOWN), 0);
	EQ(release("n"), 0);
	EQ(entries(), 0);
	EQ(reserved(0), 300);
	end_child(child);
	end_child(second);
	hear_of_deaths();
	OK(is_published("m"));
	EQ(reserved(0), 300);

	/* And what a name held may become a life's. */
	child = start_child();
	EQ(hold("m", child, 1, 10, SHOWN), 0);
	EQ(reserved(0), 0);
	end_child(child);
	hear_of_deaths();
	OK(!is_published("m"));
	EQ(reserved(1), 0);
}

static void holding_can_fail(void)
{
	uint32_t heap = d->directory.heap.n_free;
	pid_t child = start_child();

	EQ(hold("m", child, 0, TOTAL + 1, SHOWN), -ENOSPC);
	EQ(hold("m", 0, 0, 1, SHOWN), -ESRCH);
	EQ(hold("m", 0x7ffffffe, 0, 1, SHOWN), -ESRCH);
	d->config.pins_per_uid = 1;
	EQ(hold("m", child, 0, 1, SHOWN), 0);
	EQ(hold("n", child, 0, 1, SHOWN), -EDQUOT);
	STR(why, "uid 0 has 1 pins and held maps: give one back, or raise "
		 "limits.pins-per-uid");
	d->config.pins_per_uid = 256;
	EQ(entries(), 1);
	EQ(release("m"), 0);
	EQ(entries(), 0);
	EQ(d->directory.heap.n_free, heap);
	end_child(child);
}

/* The holder ends while the clerk has the change in hand. */
static void holders_that_end_too_early(void)
{
	struct gm_charge_image charge = charge_of(0, 70);
	struct gm_layers layers = map_of(
		"m", 0, GM_OBJECT_COMMITTED | GM_OBJECT_HELD, &charge, 1);
	pid_t child = start_child();
	struct gm_put put;
	uint32_t place, other;

	EQ(hold("before", child, 1, 10, SHOWN), 0);
	EQ(gm_holders_hold(d, child, 0, why, &place), 0);
	EQ(gm_holders_hold(d, child, 0, why, &other), 0);
	EQ(gm_publish_prepare(d, &layers, why, &put), 0);
	end_child(child);
	hear_of_deaths();
	OK(!is_published("before"));
	EQ(reserved(1), 0);
	gm_holders_let_go(d, other);
	gm_holders_keep(d, place, &put.block);
	gm_publish_show(d, &put);
	OK(is_published("m"));
	EQ(reserved(0), 70);
	hear_of_deaths();
	OK(!is_published("m"));
	EQ(reserved(0), 0);
}

/* A change replaces a held map whose holder ends in the middle. */
static void holders_that_end_under_a_change(void)
{
	struct gm_charge_image charge = charge_of(0, 900);
	struct gm_layers layers =
		map_of("m", 0, GM_OBJECT_COMMITTED, &charge, 1);
	pid_t child = start_child();
	struct gm_put put;

	EQ(hold("m", child, 0, 800, SHOWN), 0);
	EQ(gm_publish_prepare(d, &layers, why, &put), 0);
	end_child(child);
	hear_of_deaths();
	OK(!is_published("m"));
	gm_publish_show(d, &put);
	EQ(reserved(0), 900);
	EQ(release("m"), 0);
}

/* ---- the next agent ------------------------------------------------------ */

static void promises_outlive_the_agent(void)
{
	pid_t living = start_child(), dead = start_child();

	EQ(commit("named", 0, 0, 100), 0);
	EQ(hold("living", living, 1, 200, SHOWN), 0);
	EQ(hold("dead", dead, 1, 300, SHOWN), 0);
	EQ(hold("never", living, 2, 400, KEPT), 0);
	EQ(entries(), 3);
	die();
	end_child(dead);
	if (!come_back())
		return;
	OK(is_published("named") && is_published("living"));
	OK(!is_published("dead") && !is_published("never"));
	EQ(entries(), 1);
	EQ(reserved(0), 100);
	EQ(reserved(1), 200);
	EQ(reserved(2), 0);
	EQ(commit("more", 0, 1, 801), -ENOSPC);
	end_child(living);
	hear_of_deaths();
	EQ(reserved(1), 0);
	EQ(release("named"), 0);

	die();
	if (come_back())
		EQ(d->directory.heap.n_free,
		   d->directory.heap.end - d->directory.heap.first -
			   ROWS * (d->directory.rows[0].bytes / GM_UNIT));
}

/* A row became smaller: nothing is taken from anybody, and nothing given. */
static void shrunk_rows_keep_their_promises(void)
{
	EQ(commit("m", 0, 0, 900), 0);
	die();
	d->devices.of[0]->facts.total_bytes = 500;
	if (!come_back())
		return;
	EQ(reserved(0), 900);
	EQ(commit("n", 0, 0, 1), -ENOSPC);
	EQ(commit("m", 0, 0, 400), 0);
	EQ(commit("n", 0, 0, 100), 0);
	d->devices.of[0]->facts.total_bytes = TOTAL;
	EQ(release("m"), 0);
	EQ(release("n"), 0);
}

/* ---- by chance ----------------------------------------------------------- */

#define NAMES 12

struct expected {
	uint32_t row;
	uint64_t bytes; /* 0: not there */
};

/* Rows as the promises of @expected, none over its total. */
static bool adds_up(const struct expected *expected)
{
	uint64_t sum[ROWS] = { 0 };

	for (int i = 0; i < NAMES; i++)
		sum[expected[i].row] += expected[i].bytes;
	for (uint32_t row = 0; row < ROWS; row++) {
		if (sum[row] > TOTAL || reserved(row) != sum[row])
			return false;
	}
	return true;
}

static void any_order_adds_up(void)
{
	struct expected expected[NAMES] = { 0 };
	int wrong = 0, refused = 0, granted = 0;
	pid_t child = start_child();

	for (int turn = 0; turn < 4000; turn++) {
		uint32_t i = (uint32_t)dice(NAMES), row = (uint32_t)dice(ROWS);
		uint64_t bytes = 1 + dice(TOTAL / 2);
		char name[16];
		int ret;

		snprintf(name, sizeof(name), "chance%u", i);
		if (dice(3) == 0) {
			ret = release(name);
			wrong += ret != (expected[i].bytes ? 0 : -ENOENT);
			expected[i].bytes = 0;
		} else {
			ret = dice(2) ? commit(name, 0, row, bytes)
				      : hold(name, child, row, bytes, SHOWN);
			wrong += ret != 0 && ret != -ENOSPC;
			granted += ret == 0;
			refused += ret != 0;
			if (ret == 0)
				expected[i] = (struct expected){ row, bytes };
		}
		wrong += !adds_up(expected);
		if (turn % 500 == 499) {
			die();
			come_back();
			wrong += !adds_up(expected);
		}
	}
	EQ(wrong, 0);
	OK(granted > 500 && refused > 500);
	end_child(child);
	hear_of_deaths();
	for (int i = 0; i < NAMES; i++) {
		char name[16];

		snprintf(name, sizeof(name), "chance%d", i);
		release(name);
	}
	EQ(reserved(0) + reserved(1) + reserved(2), 0);
}

/* ---- room ---------------------------------------------------------------- */

static int commit_large(int i, uint32_t n_layers)
{
	struct gm_charge_image charge = charge_of(0, 0);
	char name[16];
	struct gm_layers layers =
		map_of(name, 0, GM_OBJECT_COMMITTED, &charge, 1);
	uint64_t version;

	snprintf(name, sizeof(name), "large%d", i);
	charge.reserve_bytes = i == 0;
	layers.n_layers = n_layers;
	return gm_publish_layers(d, &layers, why, &version);
}

static void two_thousand_maps_fit(void)
{
	uint32_t heap = d->directory.heap.n_free, left;
	int n = 0, wrong = 0;

	for (int i = 0; i < 2000; i++)
		wrong += commit_large(i, 200) != 0;
	EQ(wrong, 0);
	/* Twice, for a map lies in the heap twice while it is replaced. */
	for (int i = 0; i < 2000; i++)
		wrong += commit_large(i, 200) != 0;
	EQ(wrong, 0);
	EQ(reserved(0), 1);

	while (commit_large(2000 + n, 20000) == 0)
		n++;
	OK(n > 0);
	EQ(commit_large(0, GM_LAYERS_MAX), -ENOSPC);
	OK(strstr(why, "release objects, or raise segment.size") != NULL);
	left = d->directory.heap.n_free;
	OK(!is_published("large9999"));
	EQ(commit_large(9999, GM_LAYERS_MAX), -ENOSPC);
	OK(!is_published("large9999"));
	EQ(d->directory.heap.n_free, left);
	EQ(reserved(0), 1);
	die();
	if (!come_back())
		return;
	EQ(d->directory.heap.n_free, left);
	EQ(reserved(0), 1);
	for (int i = 0; i < 2000 + n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "large%d", i);
		wrong += release(name) != 0;
	}
	EQ(wrong, 0);
	EQ(d->directory.heap.n_free, heap);
	EQ(reserved(0), 0);
}

int main(void)
{
	d = calloc(1, sizeof(*d));
	snprintf(instance, sizeof(instance), "test-ledger.%d", (int)getpid());
	if (d == NULL || gm_loop_init(&d->loop) != 0 ||
	    freopen("/dev/null", "w", stderr) == NULL || !take_over())
		return 99;
	gm_config_init(&d->config);
	make_rows();

	promises_are_summed_up();
	too_much_is_refused();
	replacing_moves_the_promise();
	lost_rows_take_nothing();
	sums_do_not_wrap();
	uids_have_a_share();
	restored_maps_need_not_be_free_now();
	death_withdraws();
	what_is_replaced_is_held_no_more();
	holding_can_fail();
	holders_that_end_too_early();
	holders_that_end_under_a_change();
	promises_outlive_the_agent();
	shrunk_rows_keep_their_promises();
	any_order_adds_up();
	two_thousand_maps_fit();

	unlink(d->segment.path);
	die();
	gm_devices_exit(d);
	gm_loop_exit(&d->loop);
	free(d);
	return tap_done();
}
