/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks segments that were damaged after an agent left them: the next agent
 * notices each kind of damage, retires the segment and makes another.  Also
 * checks holders, whose records outlive the agent as long as their processes
 * live.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/support/agent_segment.h"
#include "tests/support/tap.h"

#define CONFIG                                        \
	"[host]\nrows = 2\n[map a]\nspec = 0:3;1:2\n" \
	"[map b]\nspec = 1:4\n"

static gm_a64 *word_at(const struct agent_map *m, const gm_a64 *slot,
		       size_t offset)
{
	uint64_t at = (uint64_t)gm_seq_unit(gm_get(slot)) * GM_UNIT + offset;

	return (gm_a64 *)(void *)(m->map.base + at);
}

/* Returns the slot of a map. */
static struct gm_object_slot *slot_of(const struct agent_map *m,
				      const char *name)
{
	uint64_t key = gm_object_key(GM_KIND_LAYERS, name);
	uint32_t i = 0;

	while (gm_get(&m->map.objects[i].key) != key)
		i++;
	return &m->map.objects[i];
}

static void add(gm_a64 *word, uint64_t n)
{
	gm_put(word, gm_get(word) + n);
}

static void other_boot(struct agent_map *m)
{
	add(&m->map.header->boot_id[1], 1);
}

static void other_layout(struct agent_map *m)
{
	add(&m->map.header->layout, 1);
}

static void other_major(struct agent_map *m)
{
	gm_put(&m->map.header->major, GM_LAYOUT_MAJOR + 1);
}

static void odd_state(struct agent_map *m)
{
	gm_put(&m->map.header->state, 9);
}

static void no_epoch(struct agent_map *m)
{
	gm_put(&m->map.header->epoch, 0);
}

static void shorter_than_the_file(struct agent_map *m)
{
	add(&m->map.header->size, -(uint64_t)GM_UNIT);
	add(&m->map.header->heap_bytes, -(uint64_t)GM_UNIT);
}

static void longer_than_the_file(struct agent_map *m)
{
	add(&m->map.header->size, 4096);
}

static void heap_is_smaller(struct agent_map *m)
{
	add(&m->map.header->heap_bytes, -(uint64_t)GM_UNIT);
}

static void rotor_is_outside(struct agent_map *m)
{
	gm_put(&m->map.header->rotor, 1);
}

static void too_many_rows(struct agent_map *m)
{
	gm_put(&m->map.header->rows_used, GM_ROWS + 1);
}

static void row_without_facts(struct agent_map *m)
{
	gm_put(&m->map.header->rows_used, 3);
}

static void row_twice(struct agent_map *m)
{
	size_t at = offsetof(struct gm_row_image, uuid);

	for (size_t i = 0; i < 16; i += 8)
		gm_put(word_at(m, &m->map.rows[1].facts, at + i),
		       gm_get(word_at(m, &m->map.rows[0].facts, at + i)));
}

static void odd_moving_facts(struct agent_map *m)
{
	struct gm_row *row = &m->map.rows[0];

	add(&row->moving[gm_get(&row->version) % GM_MOVING_BUFFERS][0], 90);
}

static void slot_leaves_the_heap(struct agent_map *m)
{
	struct gm_object_slot *slot = slot_of(m, "a");
	uint64_t version = gm_seq_version(gm_get(&slot->slot));

	gm_put(&slot->slot, gm_seq_word(version, (1u << GM_UNIT_BITS) - 1));
}

static void slot_of_another_version(struct agent_map *m)
{
	add(&slot_of(m, "a")->slot, UINT64_C(1) << GM_UNIT_BITS);
}

static void slot_in_the_middle(struct agent_map *m)
{
	add(&slot_of(m, "a")->slot, 1);
}

static void slot_of_another_key(struct agent_map *m)
{
	add(&slot_of(m, "b")->key, 1);
}

static void slots_overlap(struct agent_map *m)
{
	struct gm_object_slot *free_slot = &m->map.objects[GM_OBJECTS - 1];
	struct gm_object_slot *slot = slot_of(m, "a");

	gm_put(&free_slot->key, gm_get(&slot->key));
	gm_put(&free_slot->slot, gm_get(&slot->slot));
}

static void block_of_another_kind(struct agent_map *m)
{
	add(word_at(m, &slot_of(m, "a")->slot, 0), 1);
}

static void block_is_cut(struct agent_map *m)
{
	add(word_at(m, &slot_of(m, "a")->slot, 0),
	    (uint64_t)-8 << 32); /* bytes */
}

static void block_is_huge(struct agent_map *m)
{
	add(word_at(m, &slot_of(m, "a")->slot, 0), UINT64_C(1) << 62);
}

static void name_goes_on(struct agent_map *m)
{
	add(word_at(m, &slot_of(m, "a")->slot,
		    offsetof(struct gm_object_image, name) + 56),
	    UINT64_C(0x41) << 56);
}

static void name_has_a_tail(struct agent_map *m)
{
	add(word_at(m, &slot_of(m, "a")->slot,
		    offsetof(struct gm_object_image, name) + 8),
	    0x41);
}

static void layers_on_no_row(struct agent_map *m)
{
	add(word_at(m, &slot_of(m, "a")->slot, sizeof(struct gm_layers_image)),
	    200);
}

static void others_on_no_row(struct agent_map *m)
{
	add(word_at(m, &slot_of(m, "a")->slot,
		    offsetof(struct gm_layers_image, base)),
	    200);
}

/* The rows of layers are where the bytes are. */
static void parts_overlap(struct agent_map *m)
{
	add(word_at(m, &slot_of(m, "a")->slot,
		    offsetof(struct gm_layers_image, rows_at)),
	    24);
}

static void layers_without_number(struct agent_map *m)
{
	gm_a64 *word = word_at(m, &slot_of(m, "a")->slot,
			       offsetof(struct gm_layers_image, n_layers));

	gm_put(word, gm_get(word) >> 32 << 32);
}

static void set_flags(struct agent_map *m, uint64_t flags)
{
	add(word_at(m, &slot_of(m, "a")->slot,
		    offsetof(struct gm_object_image, owner_uid)),
	    flags << 32);
}

static void flags_of_no_release(struct agent_map *m)
{
	set_flags(m, 4);
}

static void held_but_not_committed(struct agent_map *m)
{
	set_flags(m, GM_OBJECT_HELD);
}

static void held_by_nobody(struct agent_map *m)
{
	set_flags(m, GM_OBJECT_COMMITTED | GM_OBJECT_HELD);
}

/* Returns the first charge of map "a", which follows the rows and bytes of five
 * layers. */
static gm_a64 *charge_at(const struct agent_map *m, size_t offset)
{
	return word_at(m, &slot_of(m, "a")->slot,
		       sizeof(struct gm_layers_image) + 24 + 40 + offset);
}

static void charged_to_no_row(struct agent_map *m)
{
	add(charge_at(m, 0), 200);
}

static void charged_twice(struct agent_map *m)
{
	uint64_t of_second = sizeof(struct gm_charge_image);

	gm_put(charge_at(m, 0), gm_get(charge_at(m, of_second)));
}

static void promises_wrap(struct agent_map *m)
{
	set_flags(m, GM_OBJECT_COMMITTED);
	gm_put(charge_at(m, offsetof(struct gm_charge_image, kv_bytes)),
	       INT64_MAX);
	gm_put(charge_at(m, offsetof(struct gm_charge_image, reserve_bytes)),
	       1);
}

static uint64_t start_of(pid_t pid)
{
	char path[64], text[1024], *at;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	n = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
	text[n] = '\0';
	if (file != NULL)
		fclose(file);
	at = strrchr(text, ')');
	for (int field = 2; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at != NULL ? strtoull(at, NULL, 10) : 0;
}

/* Returns a holder of map "a" as the agent would have stored it. */
static struct gm_holder_image claim_of(const struct agent_map *m, pid_t pid)
{
	struct gm_holder_image image = { .kind = GM_HOLDER_PIN,
					 .pid = (uint32_t)pid,
					 .uid = geteuid(),
					 .start = start_of(pid),
					 .claim = 17 };
	struct gm_object object;

	gm_object_open(&m->map, &slot_of(m, "a")->slot, &object);
	image.unit = gm_seq_unit(object.word);
	image.slot = (uint32_t)(slot_of(m, "a") - m->map.objects);
	image.version = object.image.version;
	image.bytes = object.image.bytes;
	return image;
}

static void store(const struct agent_map *m, uint32_t index,
		  const struct gm_holder_image *image)
{
	uint64_t words[8];

	memcpy(words, image, sizeof(words));
	for (int i = 7; i >= 0; i--)
		gm_put(&m->map.holders[index].w[i], words[i]);
}

static void holder_of_no_kind(struct agent_map *m)
{
	gm_put(&m->map.holders[3].w[0], 7);
}

static void holder_of_nothing(struct agent_map *m)
{
	struct gm_holder_image image = claim_of(m, getpid());

	image.unit = 0;
	store(m, 3, &image);
}

static void holder_of_another_version(struct agent_map *m)
{
	struct gm_holder_image image = claim_of(m, getpid());

	image.version++;
	store(m, 3, &image);
}

static void holder_in_the_middle(struct agent_map *m)
{
	struct gm_holder_image image = claim_of(m, getpid());

	image.unit++;
	store(m, 3, &image);
}

static void held_under_another_version(struct agent_map *m)
{
	struct gm_holder_image image = claim_of(m, getpid());

	held_by_nobody(m);
	image.kind = GM_HOLDER_RESERVE;
	image.version++;
	store(m, 3, &image);
}

static void holders_of_one_claim(struct agent_map *m)
{
	struct gm_holder_image image = claim_of(m, getpid());

	store(m, 3, &image);
	store(m, 4, &image);
}

static const struct {
	void (*do_it)(struct agent_map *m);
	const char *why; /* text that must be in the log */
} damages[] = {
	{ other_boot, "it is of another boot" },
	{ other_layout, "it is of another layout" },
	{ other_major, "it is of another layout" },
	{ odd_state, "its state is 9" },
	{ no_epoch, "no agent has its epoch" },
	{ shorter_than_the_file, "the file is not as long as it says" },
	{ longer_than_the_file, "its header is damaged" },
	{ heap_is_smaller, "its heap does not end where it does" },
	{ rotor_is_outside, "its rotor is out of the heap" },
	{ too_many_rows, "it has too many rows" },
	{ row_without_facts, "row 2 names no block" },
	{ row_twice, "rows 0 and 1 are one device" },
	{ odd_moving_facts, "row 0 has no moving facts" },
	{ slot_leaves_the_heap, "slot 0 names no block" },
	{ slot_of_another_version, "slot 0 has version 3, its block 2" },
	{ slot_in_the_middle, "slot 0 " },
	{ slot_of_another_key, "slot 1 has another key than its block" },
	{ slots_overlap, "the block of slot 4095 lies in another" },
	{ block_of_another_kind, "slot 0 has another key than its block" },
	{ block_is_cut, "the block of slot 0 is cut" },
	{ block_is_huge, "slot 0 names no block" },
	{ name_goes_on, "slot 0 names no block" },
	{ name_has_a_tail, "the block of slot 0 has no name" },
	{ layers_on_no_row, "the layer map in slot 0 uses a row that is not" },
	{ others_on_no_row,
	  "the layer map in slot 0 has its other tensors on a row that is" },
	{ parts_overlap, "parts of the layer map in slot 0 overlap" },
	{ layers_without_number, "the layer map in slot 0 is damaged" },
	{ flags_of_no_release, "slot 0 has flags 0x4" },
	{ held_but_not_committed, "slot 0 has flags 0x2" },
	{ held_by_nobody, "no process holds the held map in slot 0" },
	{ held_under_another_version,
	  "no process holds the held map in slot 0" },
	{ charged_to_no_row, "the layer map in slot 0 is charged to a row" },
	{ charged_twice, "the layer map in slot 0 is charged to a row that is "
			 "not there, or twice to one" },
	{ promises_wrap, "row 0 is promised for 2^63 bytes or more" },
	{ holder_of_no_kind, "holder 3 is damaged" },
	{ holder_of_nothing, "holder 3 is damaged" },
	{ holder_of_another_version, "holder 3 and slot 0 disagree" },
	{ holder_in_the_middle, "holder 3 " },
	{ holders_of_one_claim, "holders 3 and 4 have one claim" },
};

/* Damage the segment and start another agent, which must log the reason, mark
 * the old segment, and make a new one. */
static void replaced(struct agent *a, void (*do_it)(struct agent_map *m),
		     const char *why)
{
	struct agent_map before, after;

	if (!agent_start(a) || !agent_map_open(a, &before)) {
		OK(!"the agent starts");
		return;
	}
	agent_kill(a, SIGKILL);
	do_it(&before);
	OK(agent_start(a));
	OK(agent_logged(a, "event=segment_retired"));
	if (!tap_check(agent_logged(a, why), why, __FILE__, __LINE__))
		agent_show_log(a);
	EQ(agent_map_state(&before), GM_STATE_RETIRED);
	if (OK(agent_map_open(a, &after))) {
		OK(after.inode != before.inode);
		EQ(agent_map_epoch(&after), 1);
		EQ(agent_map_version(&after, "a"), 2); /* restored */
		agent_map_close(&after);
	}
	agent_kill(a, SIGKILL);
	agent_map_close(&before);
}

static void damage_is_noticed(void)
{
	struct agent a;

	agent_make(&a, CONFIG);
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++)
		replaced(&a, damages[i].do_it, damages[i].why);
	agent_remove(&a);
}

/* The next agent is killed as well, while it replaces the segment. */
static void retiring_can_be_interrupted(void)
{
	static const char *const points[] = { "GM_POINT=segment_retired:kill",
					      "GM_POINT=segment_unlinked:kill",
					      "GM_POINT=segment_filled:kill",
					      "GM_POINT=segment_visible:kill" };
	struct agent_map m;
	struct agent a;

	if (!tap_has_points()) {
		SKIP(1, "needs --enable-testpoints");
		return;
	}
	agent_make(&a, CONFIG);
	for (int i = 0; i < 4; i++) {
		OK(agent_start(&a) && agent_map_open(&a, &m));
		agent_kill(&a, SIGKILL);
		rotor_is_outside(&m);
		a.env[0] = points[i];
		EQ(agent_run(&a, NULL), -SIGKILL);
		EQ(agent_map_state(&m), GM_STATE_RETIRED);
		agent_map_close(&m);
		a.env[0] = NULL;
		OK(agent_start(&a) && agent_map_open(&a, &m));
		EQ(agent_map_state(&m), GM_STATE_READY);
		EQ(agent_map_version(&m, "a"), 2); /* restored */
		agent_map_close(&m);
		agent_kill(&a, SIGKILL);
	}
	agent_remove(&a);
}

/* Files that are no segment at all still belong to this instance, by their
 * name. */
static void other_files_are_replaced(void)
{
	static const off_t sizes[] = { 0, 1, 63, 64, 512, 4096, 1 << 20 };
	struct agent_map m;
	struct agent a;

	agent_make(&a, CONFIG);
	OK(shm_names_make(a.instance));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int fd = open(a.segment, O_CREAT | O_RDWR | O_CLOEXEC, 0644);

		OK(fd >= 0 && ftruncate(fd, sizes[i]) == 0);
		close(fd);
		OK(agent_start(&a));
		OK(agent_logged(&a, "event=segment_retired"));
		if (OK(agent_map_open(&a, &m))) {
			EQ(agent_map_epoch(&m), 1);
			agent_map_close(&m);
		}
		agent_kill(&a, SIGKILL);
		/* In the second round it is a real segment, truncated. */
		OK(truncate(a.segment, 8192) == 0);
	}
	agent_remove(&a);
}

static uint32_t holder_kind(const struct agent_map *m, uint32_t index)
{
	return (uint32_t)gm_get(&m->map.holders[index].w[0]);
}

static bool holder_goes(const struct agent_map *m, uint32_t index)
{
	struct timespec step = { .tv_nsec = 5000000 };

	for (int ms = 0; ms < AGENT_LIMIT_MS; ms += 5) {
		if (holder_kind(m, index) == GM_HOLDER_FREE)
			return true;
		nanosleep(&step, NULL);
	}
	return false;
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

static uint64_t first_word(const struct agent_map *m, uint32_t unit)
{
	return gm_get((gm_a64 *)(void *)(m->map.base +
					 (uint64_t)unit * GM_UNIT + 16));
}

/* Publish map "a" anew, with a restart each time, until the heap's allocation
 * has wrapped.  The smallest heap has some 5000 units, and a map of 5000 layers
 * takes 1000. */
static bool heap_goes_round(struct agent *a, const struct agent_map *m)
{
	uint64_t before, rotor = gm_get(&m->map.header->rotor);
	char config[128];

	for (int i = 0; i < 12; i++) {
		snprintf(config, sizeof(config),
			 "[segment]\nsize = 1M\n[map a]\nspec = 0:%d\n",
			 5000 + i);
		agent_kill(a, SIGKILL);
		agent_configure(a, config);
		if (!agent_start(a))
			return false;
		before = rotor;
		rotor = gm_get(&m->map.header->rotor);
		if (rotor < before)
			return true;
	}
	return false;
}

static void living_holders_keep_their_block(void)
{
	struct gm_holder_image alive, dead, reused;
	struct agent_map m;
	uint64_t version;
	struct agent a;
	pid_t child;

	agent_make(&a, "[segment]\nsize = 1M\n[map a]\nspec = 0:9\n");
	if (!OK(agent_start(&a)) || !OK(agent_map_open(&a, &m)))
		return;
	agent_kill(&a, SIGKILL);
	child = start_child();
	alive = claim_of(&m, child);
	dead = alive;
	dead.pid = 0x7ffffffe;
	dead.claim = 18;
	reused = alive;
	reused.start--; /* the process began later */
	reused.claim = 19;
	store(&m, 3, &alive);
	store(&m, 5, &dead);
	store(&m, 6, &reused);
	version = first_word(&m, alive.unit);

	OK(agent_start(&a));
	OK(agent_logged(&a, "event=adopted"));
	OK(agent_logged(&a, "event=holders_adopted pins=3 held=0 gone=2"));
	EQ(holder_kind(&m, 3), GM_HOLDER_PIN);
	EQ(holder_kind(&m, 5), GM_HOLDER_FREE);
	EQ(holder_kind(&m, 6), GM_HOLDER_FREE);

	/* The map has been replaced, and all other blocks have been written
	 * since. */
	OK(heap_goes_round(&a, &m));
	OK(agent_map_version(&m, "a") > alive.version);
	EQ(first_word(&m, alive.unit), version);
	EQ(holder_kind(&m, 3), GM_HOLDER_PIN);

	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	OK(holder_goes(&m, 3));
	OK(agent_wait_log(&a, "event=holder_gone "));
	agent_map_close(&m);
	agent_remove(&a);
}

TAP_CASE()
{
	damage_is_noticed();
	retiring_can_be_interrupted();
	other_files_are_replaced();
	living_holders_keep_their_block();
	return tap_done();
}
