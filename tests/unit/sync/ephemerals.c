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

static struct gm_sync this_node = { .store = &store };
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

/* The store has not said whether it was written: the watch does. */
static void one_that_comes_late_is_deleted(void)
{
	begin();
	EQ(gm_ephemerals_end(write_value(&client, "a", "v"), -ETIMEDOUT, 0),
	   -ETIMEDOUT);
	gm_ephemerals_client_gone(&all, &client);
	EQ(count_asked(), 0);
	has("a", "w", 8); /* another process's */
	has("b", "v", 9);
	EQ(count_asked(), 0);
	has("a", "v", 10);
	OK(deletes("a", 10));
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
	/* A value that was on its way may have another lease by now. */
	EQ(gm_ephemerals_end(late, 0, 7), -ETIMEDOUT);
	/* Values that cannot be deleted are gone all the same. */
	answer(-EHOSTUNREACH, 0);
	answer(-EHOSTUNREACH, 0);
	EQ(gm_ephemerals_count(&all, 7), 0);
	EQ(gm_ephemerals_count(&all, 0), 0);
	end();
}

TAP_CASE()
{
	a_value_ends_with_its_process();
	one_that_was_not_written_is_none();
	one_that_comes_late_is_deleted();
	one_that_another_has_written_stays();
	a_deletion_that_fails_is_made_again();
	the_store_has_few_deletions_at_a_time();
	all_end_with_the_lease();
	return tap_done();
}
