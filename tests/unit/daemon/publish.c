/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* publish, holders: the directory from the agent's side, with its refusals. */

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/common/name.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/daemon.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/map_kind.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/subscribers.h"
#include "tests/support/publish_map.h"
#include "tests/support/shm_names.h"
#include "tests/support/tap.h"

#define OTHER 54321u /* uids that are neither root's nor ours */
#define THIRD 54322u

static struct gm_daemon *d;
static char why[GM_WHY_BYTES];

static int publish(const char *name, uint32_t uid, uint32_t n_layers,
		   uint64_t *ret_version)
{
	static uint32_t rows[GM_LAYERS_MAX];
	static const struct gm_charge_image charge;
	const struct gm_layers layers = { .name = name,
					  .spec = "0:1",
					  .owner_uid = uid,
					  .n_layers = n_layers,
					  .n_rows = 1,
					  .rows = rows,
					  .charges = &charge };
	uint64_t version;

	return publish_map(d, &layers, why,
			   ret_version != NULL ? ret_version : &version);
}

static int release(const char *name, uint32_t uid)
{
	return gm_directory_remove(d, GM_KIND_LAYERS, name, uid, why);
}

static int pin(const char *name, pid_t pid, uint32_t uid,
	       struct gm_pin *ret_pin)
{
	return gm_pins_pin(d, (struct gm_pin_owner){ pid, uid }, GM_KIND_LAYERS,
			   name, why, ret_pin);
}

/* Not printed as what they are. */
static const char *const unfit[] = {
	"\x9b[31m",           /* CSI, by one byte */
	"\xc2\x9b[31m",       /* and by two */
	"\xc3\xa9\x9b[31m",   /* behind another character */
	"a\xc2\xa0z",         /* a blank */
	"a\xe3\x80\x80z",     /* likewise */
	"a\xe2\x80\xa8z",     /* U+2028, the end of a line */
	"a\xe2\x80\x8bz",     /* of no width */
	"a\xe2\x81\xa6z",     /* U+2066, isolates a direction */
	"a\xd8\x9cz",         /* U+061C, a mark of a direction */
	"a\xef\xbb\xbfz",     /* a byte order mark */
	"a\xf3\xa0\x80\xa0z", /* a tag */
	"a\xc0\xafz",         /* longer than it needs */
	"a\xe0\x80\xafz",     /* likewise */
	"a\xed\xa0\x80z",     /* a surrogate */
	"a\xf4\x90\x80\x80z", /* above U+10FFFF */
	"a\xe2\x80",          /* cut off */
};

static void names_are_checked(void)
{
	char name[80];

	memset(name, 'n', sizeof(name));
	name[64] = '\0';
	EQ(publish(name, 0, 1, NULL), -EINVAL);
	STR(why, "a name has 1 to 63 bytes");
	name[63] = '\0';
	EQ(publish(name, 0, 1, NULL), 0);
	EQ(release(name, 0), 0);
	EQ(publish("", 0, 1, NULL), -EINVAL);
	EQ(publish("two words", 0, 1, NULL), -EINVAL);
	EQ(publish("line\n", 0, 1, NULL), -EINVAL);
	STR(why, "a name has no blanks and no control characters in it, such "
		 "as U+000A");
	EQ(gm_name_check("\xe2\x9b\x84\xc3\x9f\xf0\x9f\xa6\x99", why), 0);
	for (size_t i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++)
		EQ(publish(unfit[i], 0, 1, NULL), -EINVAL);
	EQ(publish("gpt\xe2\x80\xae"
		   "2",
		   0, 1, NULL),
	   -EINVAL);
	STR(why, "a name has no blanks and no control characters in it, such "
		 "as U+202E");
	EQ(publish("gpt\xff", 0, 1, NULL), -EINVAL);
	STR(why, "a name is text in UTF-8, and byte 3 of this one is none");
	EQ(release("nobody", 0), -ENOENT);
	STR(why, "nothing is published as nobody");
}

static void names_have_owners(void)
{
	EQ(publish("owned", OTHER, 1, NULL), 0);
	EQ(publish("owned", THIRD, 1, NULL), -EACCES);
	STR(why, "map owned belongs to uid 54321: choose another name");
	EQ(release("owned", THIRD), -EACCES);
	STR(why, "owned belongs to uid 54321, who may release it");
	EQ(publish("owned", OTHER, 2, NULL), 0);
	EQ(publish("owned", 0, 3, NULL), 0);
	EQ(release("owned", OTHER), -EACCES);
	EQ(release("owned", geteuid()), 0);
}

/* Also when the slot where the name was has been another's since. */
static void versions_of_a_name_grow(void)
{
	uint64_t first, last, next;
	char name[32];

	EQ(publish("v", 0, 1, &first), 0);
	for (int i = 0; i < 100; i++)
		publish("v", 0, 1, &last);
	EQ(last, first + 100);
	EQ(release("v", 0), 0);
	for (uint32_t i = 0; i < GM_OBJECTS; i++) {
		snprintf(name, sizeof(name), "fill%u", i);
		if (publish(name, 0, 1, NULL) != 0)
			NOTE("%s: %s", name, why);
	}
	EQ(publish("v", 0, 1, NULL), -ENOSPC);
	STR(why, "all 4096 places of the directory are taken: release an "
		 "object");
	EQ(release("fill0", 0), 0);
	EQ(publish("v", 0, 1, &next), 0);
	OK(next > last);
	EQ(release("v", 0), 0);
	for (uint32_t i = 1; i < GM_OBJECTS; i++) {
		snprintf(name, sizeof(name), "fill%u", i);
		release(name, 0);
	}
}

static void others_have_quotas(void)
{
	d->config->objects_per_uid = 2;
	d->config->object_bytes_per_uid = 4096;
	EQ(publish("q1", OTHER, 1, NULL), 0);
	EQ(publish("q2", OTHER, 1, NULL), 0);
	EQ(publish("q3", OTHER, 1, NULL), -EDQUOT);
	STR(why, "uid 54321 has 2 objects published: release one, or raise "
		 "objects-per-uid in [limits] of gpumapd.conf");
	EQ(publish("q2", OTHER, 9, NULL), 0);
	EQ(publish("q2", OTHER, 1000, NULL), -EDQUOT);
	OK(strstr(why, "object-bytes-per-uid in [limits]") != NULL);
	EQ(publish("q3", THIRD, 1, NULL), 0);
	EQ(publish("q4", 0, 1000, NULL), 0);
	EQ(release("q1", 0), 0);
	EQ(release("q2", 0), 0);
	EQ(release("q3", 0), 0);
	EQ(release("q4", 0), 0);
}

static uint64_t version_at(uint64_t unit)
{
	return gm_get(
		(gm_a64 *)(void *)(d->segment->map.base + unit * GM_UNIT +
				   offsetof(struct gm_object_image, version)));
}

/* Every other byte of the heap is written several times over, also in holes
 * that only small blocks fit into. */
static void use_the_heap(void)
{
	char name[32];

	for (int i = 0; i < 4000; i++) {
		snprintf(name, sizeof(name), "heap%d", i % 5);
		if (publish(name, 0,
			    1 + (uint32_t)random() % (i % 2 == 0 ? 4000 : 9),
			    NULL) != 0)
			NOTE("%s", why);
	}
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "heap%d", i);
		release(name, 0);
	}
}

static void pinned_blocks_stay(void)
{
	uint32_t before = d->directory->heap.n_free;
	struct gm_pin one, two;
	uint64_t version;

	EQ(publish("p", OTHER, 9, &version), 0);
	EQ(pin("p", getpid(), OTHER, &one), 0);
	EQ(pin("p", getpid(), OTHER, &two), 0);
	EQ(one.version, version);
	EQ(one.unit, two.unit);
	OK(one.claim != two.claim);
	EQ(publish("p", OTHER, 9, NULL), 0);
	use_the_heap();
	EQ(version_at(one.unit), version);
	EQ(gm_pins_unpin(d, getpid(), one.claim), 0);
	EQ(gm_pins_unpin(d, getpid(), one.claim), -ENOENT);
	EQ(gm_pins_unpin(d, getpid() + 1, two.claim), -ENOENT);
	use_the_heap();
	EQ(version_at(two.unit), version);
	EQ(gm_pins_unpin(d, getpid(), two.claim), 0);
	use_the_heap();
	OK(version_at(two.unit) != version);

	/* Unpinned while it is still published: it stays a slot's. */
	EQ(pin("p", getpid(), OTHER, &one), 0);
	EQ(gm_pins_unpin(d, getpid(), one.claim), 0);
	use_the_heap();
	EQ(version_at(one.unit), one.version);
	EQ(release("p", 0), 0);
	EQ(d->directory->heap.n_free, before);
}

static void pins_have_quotas(void)
{
	struct gm_pin pins[3];

	d->config->pins_per_uid = 2;
	d->config->pin_bytes_per_uid = 1 << 20;
	EQ(publish("p", 0, 9, NULL), 0);
	EQ(pin("p", getpid(), OTHER, &pins[0]), 0);
	EQ(pin("p", getpid(), OTHER, &pins[1]), 0);
	EQ(pin("p", getpid(), OTHER, &pins[2]), -EDQUOT);
	STR(why, "uid 54321 has 2 pins and held maps: give one back, or raise "
		 "pins-per-uid in [limits] of gpumapd.conf");
	EQ(pin("p", getpid(), THIRD, &pins[2]), 0);
	EQ(gm_pins_unpin(d, getpid(), pins[0].claim), 0);
	d->config->pin_bytes_per_uid = 600;
	EQ(pin("p", getpid(), OTHER, &pins[0]), -EDQUOT);
	OK(strstr(why, "pin-bytes-per-uid in [limits]") != NULL);
	EQ(gm_pins_unpin(d, getpid(), pins[1].claim), 0);
	EQ(gm_pins_unpin(d, getpid(), pins[2].claim), 0);
	EQ(pin("nobody", getpid(), OTHER, &pins[0]), -ENOENT);
	EQ(pin("p", 0, OTHER, &pins[0]), -ESRCH);
	OK(strstr(why, "run gpumapd in the host's (docker --pid=host") != NULL);
	EQ(pin("p", 0x7ffffffe, OTHER, &pins[0]), -ESRCH);
	STR(why, "process 2147483646 cannot be watched: it is gone");
	EQ(release("p", 0), 0);
}

static void stop_when_empty(struct gm_timer *timer)
{
	for (uint32_t i = 0; i < GM_HOLDERS; i++) {
		if (d->holders->table[i].kind != GM_HOLDER_FREE) {
			gm_timer_set(d->loop, timer, gm_loop_now() + 1000000);
			return;
		}
	}
	gm_loop_stop(d->loop);
}

static void death_unpins(void)
{
	struct gm_timer timer = { .fired = stop_when_empty };
	uint32_t before = d->directory->heap.n_free;
	struct gm_pin one;
	int open_before = dup(0), open_after;
	pid_t child;

	close(open_before);
	d->config->pins_per_uid = 10;
	d->config->pin_bytes_per_uid = 1 << 20;
	fflush(stdout);
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	EQ(publish("p", 0, 9, NULL), 0);
	for (int i = 0; i < 5; i++)
		EQ(pin("p", child, OTHER, &one), 0);
	EQ(release("p", 0), 0);
	OK(d->directory->heap.n_free < before);
	kill(child, SIGKILL);
	gm_timer_set(d->loop, &timer, gm_loop_now());
	EQ(gm_loop_run(d->loop), 0);
	EQ(d->directory->heap.n_free, before);
	waitpid(child, NULL, 0);
	open_after = dup(0);
	close(open_after);
	EQ(open_after, open_before);
}

TAP_CASE()
{
	struct gm_adopted_state *past = malloc(sizeof(*past));
	char instance[48];

	d = gm_daemon_new();
	snprintf(instance, sizeof(instance), "test-publish.%d", (int)getpid());
	if (d == NULL || past == NULL || gm_loop_init(d->loop) != 0 ||
	    !shm_names_make(instance) ||
	    gm_segment_open(instance, 2 << 20, past, why, d->segment) != 0)
		return 99;
	shm_names_remove(instance);
	gm_config_init(d->config);
	gm_subscribers_set(d);
	d->directory->heap = past->heap;
	free(past);
	if (freopen("/dev/null", "w", stderr) == NULL || gm_pins_adopt(d) != 0)
		return 99;

	names_are_checked();
	names_have_owners();
	versions_of_a_name_grow();
	others_have_quotas();
	pinned_blocks_stay();
	pins_have_quotas();
	death_unpins();

	EQ(d->directory->heap.n_free,
	   d->directory->heap.end - d->directory->heap.first);
	gm_pins_exit(d);
	gm_blocks_exit(&d->directory->heap);
	gm_segment_close(d->segment);
	gm_loop_exit(d->loop);
	gm_daemon_free(d);
	return tap_done();
}
