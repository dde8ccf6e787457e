/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Values that end with the process that wrote them, step by step: writes of
 * which nothing is known, deletions that fail, other writers, and the loss of
 * the lease in between.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/sync/ephemerals.h"
#include "tests/unit/sync/asked_store.h"

#define SECOND_NS UINT64_C(1000000000)
#define DELETIONS 16u /* at a time */
#define LATE_NS   (60 * SECOND_NS)

static struct gm_store_lease lease = { .held = true, .id = 77 };
static struct gm_sync this_node = { .store = &store, .lease = &lease };
static struct gm_sync_client client, other;
static struct gm_ephemerals all;

static void begin(void)
{
	store_begin();
	client = other = (struct gm_sync_client){ .sync = &this_node };
	other.uid = 7;
	gm_ephemerals_init(&all, &this_node);
}

static void end(void)
{
	store_end();
	gm_ephemerals_free(&all);
}

/* @client writes a value.  Its request goes to the store by other code. */
static struct gm_ephemeral *write_value(struct gm_sync_client *of,
					const char *key, const char *value)
{
	return gm_ephemerals_begin(
		&all, of,
		&(struct gm_store_write){
			.key = key, .value = value, .bytes = strlen(value) });
}

static void has(const char *key, const char *value, uint64_t revision)
{
	gm_ephemerals_saw(&all,
			  &(struct gm_store_event){ .kind = GM_STORE_PUT,
						    .key = key,
						    .value = value,
						    .bytes = strlen(value),
						    .revision = revision });
}

/* Is the store asked to delete this, and nothing else? */
static bool deletes(const char *key, uint64_t revision)
{
	return count_asked() == 1 && strcmp(asked()->key, key) == 0 &&
	       asked()->value == NULL && asked()->expected == revision;
}

static void a_value_ends_with_its_process(void)
{
	begin();
	EQ(gm_ephemerals_end(write_value(&client, "a", "v"), 0, 5), 0);
	EQ(gm_ephemerals_end(write_value(&other, "b", "v"), 0, 6), 0);
	EQ(gm_ephemerals_count(&all, 0), 1);
	gm_ephemerals_client_gone(&all, &client);
	OK(deletes("a", 5));
	EQ(gm_ephemerals_count(&all, 0), 1); /* until it is deleted */
	answer(0, 0);
	EQ(gm_ephemerals_count(&all, 0), 0);
	EQ(gm_ephemerals_count(&all, 7), 1);
	EQ(gm_ephemerals_due(&all), GM_SYNC_NEVER);
	end();
}

static void one_that_was_not_written_is_none(void)
{
	begin();
	EQ(gm_ephemerals_end(write_value(&client, "a", "v"), -ESTALE, 4),
	   -ESTALE);
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
}

/* ---- writes of which nothing is known ------------------------------------ */

/* "v" is written to "a", and the store does not say whether it was. */
static void lose_answer(void)
{
	begin();
	EQ(gm_ephemerals_end(write_value(&client, "a", "v"), -ETIMEDOUT, 0),
	   -ETIMEDOUT);
	gm_ephemerals_client_gone(&all, &client);
	EQ(count_asked(), 0);
}

/* Is the store asked for the value of "a", and for nothing else? */
static bool looks(void)
{
	const struct gm_store_list *list = GM_STORE_LIST_OF(store.first);

	return count_asked() == 1 &&
	       store.first->kind == GM_STORE_REQUEST_LIST && list->one &&
	       !list->keys && strcmp(list->prefix, "a") == 0;
}

/* The store has this one. */
static void finds(const char *value, uint64_t revision, uint64_t under)
{
	const struct gm_store_event put = { .kind = GM_STORE_PUT,
					    .key = "a",
					    .value = value,
					    .bytes = strlen(value),
					    .revision = revision,
					    .lease = under };
	struct gm_store_list *list = GM_STORE_LIST_OF(store.first);

	list->item(list, &put);
	answer(0, 0);
}

/* The watch says something of "a". */
static void look_now(void)
{
	has("a", "v", 10);
	EQ(gm_ephemerals_due(&all), 0);
	gm_ephemerals_tick(&all, gm_sync_now());
	OK(looks());
}

static void one_that_comes_late_is_deleted(void)
{
	lose_answer();
	has("b", "v", 9);
	gm_ephemerals_tick(&all, gm_sync_now());
	EQ(count_asked(), 0);
	gm_ephemerals_tick(&all, gm_ephemerals_due(&all));
	OK(looks());
	answer(0, 0); /* there is none yet */
	look_now();
	answer(-EHOSTUNREACH, 0);
	look_now();
	finds("v", 10, lease.id);
	OK(deletes("a", 10));
	end();
}

static void what_others_write_is_not_taken_for_it(void)
{
	struct gm_ephemeral *late;

	lose_answer();
	look_now();
	finds("w", 10, lease.id);
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
	lose_answer();
	look_now();
	finds("v", 10, 0); /* for good */
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
	lose_answer();
	late = write_value(&other, "a", "v");
	look_now();
	finds("v", 10, lease.id); /* it may be theirs */
	EQ(count_asked(), 0);
	EQ(gm_ephemerals_end(late, 0, 10), 0);
	look_now();
	finds("v", 10, lease.id); /* and is */
	EQ(count_asked(), 0);
	EQ(gm_ephemerals_count(&all, 0), 0);
	EQ(gm_ephemerals_count(&all, 7), 1);
	end();
}

static void it_is_waited_for_no_longer_than_a_minute(void)
{
	uint64_t now_ns = gm_sync_now();
	struct gm_ephemeral *one;

	begin();
	one = write_value(&client, "a", "v");
	EQ(gm_ephemerals_end(one, -ETIMEDOUT, 0), -ETIMEDOUT);
	for (int i = 0; i < 3; i++) {
		gm_ephemerals_tick(&all, gm_ephemerals_due(&all));
		OK(looks());
		answer(0, 0);
	}
	EQ(gm_ephemerals_count(&all, 0), 1);
	gm_ephemerals_tick(&all, now_ns + LATE_NS + SECOND_NS);
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
}

static void one_that_another_has_written_stays(void)
{
	begin();
	EQ(gm_ephemerals_end(write_value(&client, "a", "v"), 0, 5), 0);
	EQ(gm_ephemerals_end(write_value(&client, "b", "v"), 0, 6), 0);
	gm_ephemerals_replaced(&all, "a", 6);
	gm_ephemerals_replaced(&all, "b", 5);
	EQ(gm_ephemerals_count(&all, 0), 2);
	gm_ephemerals_replaced(&all, "a", 5);
	EQ(gm_ephemerals_count(&all, 0), 1);
	gm_ephemerals_client_gone(&all, &client);
	OK(deletes("b", 6));
	/* The store knows of another writer first. */
	answer(-ESTALE, 7);
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
}

static void a_deletion_that_fails_is_made_again(void)
{
	uint64_t now_ns = gm_sync_now();

	begin();
	EQ(gm_ephemerals_end(write_value(&client, "a", "v"), 0, 5), 0);
	gm_ephemerals_client_gone(&all, &client);
	answer(-ETIMEDOUT, 0);
	EQ(count_asked(), 0);
	OK(gm_ephemerals_due(&all) > now_ns + SECOND_NS / 2);
	OK(gm_ephemerals_due(&all) != GM_SYNC_NEVER);
	gm_ephemerals_tick(&all, now_ns);
	EQ(count_asked(), 0);
	gm_ephemerals_tick(&all, gm_ephemerals_due(&all));
	OK(deletes("a", 5));
	EQ(gm_ephemerals_due(&all), GM_SYNC_NEVER);
	end();
}

static void the_store_has_few_deletions_at_a_time(void)
{
	char key[8];

	begin();
	for (unsigned int i = 0; i < 3 * DELETIONS; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		gm_ephemerals_end(write_value(&client, key, "v"), 0, i + 1);
	}
	gm_ephemerals_client_gone(&all, &client);
	EQ(count_asked(), DELETIONS);
	for (unsigned int i = 0; i < 2 * DELETIONS; i++) {
		answer(0, 0);
		if (count_asked() != DELETIONS)
			EQ(count_asked(), DELETIONS);
	}
	for (unsigned int i = 0; i < DELETIONS; i++)
		answer(0, 0);
	EQ(count_asked(), 0);
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
}

static unsigned int n_told;

static void tell(struct gm_sync_client *of)
{
	n_told += of == &client;
}

static void all_end_with_the_lease(void)
{
	struct gm_ephemeral *late;

	begin();
	n_told = 0;
	EQ(gm_ephemerals_end(write_value(&other, "a", "v"), 0, 5), 0);
	EQ(gm_ephemerals_end(write_value(&other, "b", "v"), 0, 6), 0);
	gm_ephemerals_client_gone(&all, &other);
	late = write_value(&client, "c", "v");
	EQ(count_asked(), 2);
	gm_ephemerals_lost(&all, tell);
	EQ(n_told, 1);
	/* One that was on its way may have another lease by now. */
	EQ(gm_ephemerals_end(late, 0, 7), -ETIMEDOUT);
	/* Values that cannot be deleted are gone all the same. */
	answer(-EHOSTUNREACH, 0);
	answer(-EHOSTUNREACH, 0);
	EQ(gm_ephemerals_count(&all, 7), 0);
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
	lose_answer();
	look_now();
	gm_ephemerals_lost(&all, tell);
	finds("v", 10, lease.id);
	EQ(count_asked(), 0);
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
}

TAP_CASE()
{
	a_value_ends_with_its_process();
	one_that_was_not_written_is_none();
	one_that_comes_late_is_deleted();
	what_others_write_is_not_taken_for_it();
	it_is_waited_for_no_longer_than_a_minute();
	one_that_another_has_written_stays();
	a_deletion_that_fails_is_made_again();
	the_store_has_few_deletions_at_a_time();
	all_end_with_the_lease();
	return tap_done();
}
