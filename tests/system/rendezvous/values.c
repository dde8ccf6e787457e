/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Values that processes of a user share on several nodes: one writer of many
 * wins, waits end with a change and with nothing else, ephemeral values end
 * with their process, their gpumap-sync and the lease, and users do not see
 * each other's.
 */

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include "tests/support/users.h"
#include "tests/system/rendezvous/place.h"

#define OTHER 54333

/* ---- reading and writing ------------------------------------------------- */

static void a_value_is_written_once(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	struct gpumap_sync *b = place_connect(place, 1);
	uint64_t first = 0, second = 0, seen = 0;
	char text[4];
	size_t bytes = 0;

	if (a == NULL || b == NULL)
		return;
	EQ(gpumap_value_get(b, "x/y", text, sizeof(text), &bytes, &seen),
	   -ENOENT);
	EQ(place_put(a, "x/y", "one", 0, 0, &first), 0);
	OK(first != 0);
	STR(place_text(b, "x/y"), "one");
	EQ(place_put(b, "x/y", "two", 0, 0, &seen), -ESTALE);
	STR(gpumap_refusal(NULL),
	    "x/y has another revision: get it, and write again");
	EQ(seen, first);
	EQ(place_put(b, "x/y", "second", first, 0, &second), 0);
	OK(second != 0 && second != first);
	EQ(place_put(a, "x/y", "three", first, 0, &seen), -ESTALE);
	EQ(seen, second);
	EQ(gpumap_value_get(a, "x/y", text, sizeof(text), &bytes, &seen),
	   -ENOBUFS);
	EQ(bytes, 6);
	EQ(place_put(a, "x/y", NULL, first, 0, &seen), -ESTALE);
	EQ(place_put(a, "x/y", NULL, second, 0, &seen), 0);
	EQ(seen, 0);
	EQ(place_put(a, "x/y", NULL, second, 0, &seen), -ESTALE);
	STR(gpumap_refusal(NULL), "there is no value x/y any more");
	STR(place_text(b, "x/y"), "");
	EQ(place_put(a, "x/y", "", 0, 0, &seen), 0);
	OK(seen != 0 && seen != first && seen != second);
	EQ(gpumap_value_get(b, "x/y", text, 0, &bytes, &first), 0);
	OK(bytes == 0 && first == seen);
	EQ(place_put(a, "x/y", NULL, seen, 0, &seen), 0);
	gpumap_sync_close(a);
	gpumap_sync_close(b);
}

static void keys_are_listed(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	uint64_t revisions[3] = { 0 };
	char ends[16] = "";
	size_t bytes = 99;

	if (a == NULL)
		return;
	EQ(gpumap_value_list(a, "list/", ends, sizeof(ends), &bytes), 0);
	EQ(bytes, 0);
	EQ(place_put(a, "list/one", "1", 0, 0, &revisions[0]), 0);
	EQ(place_put(a, "list/two/x", "2", 0, 0, &revisions[1]), 0);
	EQ(place_put(a, "listed", "3", 0, 0, &revisions[2]), 0);
	EQ(gpumap_value_list(a, "list/", ends, sizeof(ends), &bytes), 0);
	EQ(bytes, 10);
	OK(memcmp(ends, "one\0two/x", 10) == 0);
	EQ(gpumap_value_list(a, "list/", ends, 9, &bytes), -ENOBUFS);
	EQ(bytes, 4);
	EQ(gpumap_value_list(a, "list/two", ends, 9, &bytes), 0);
	STR(ends, "/x");
	EQ(gpumap_value_list(a, "/", ends, 9, &bytes), -EINVAL);
	EQ(place_put(a, "list/one", NULL, revisions[0], 0, &revisions[0]), 0);
	EQ(place_put(a, "list/two/x", NULL, revisions[1], 0, &revisions[1]), 0);
	EQ(place_put(a, "listed", NULL, revisions[2], 0, &revisions[2]), 0);
	gpumap_sync_close(a);
}

static void what_fits_and_what_does_not(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	struct gpumap_sync *none = NULL;
	static char longest[GPUMAP_VALUE_BYTES_MAX + 2];
	char key[GPUMAP_VALUE_KEY_MAX + 2];
	uint64_t revision = 0;

	if (a == NULL)
		return;
	EQ(gpumap_sync_open("", &none), -EINVAL);
	EQ(gpumap_value_cas(a,
			    &(struct gpumap_value_write){
				    .size = sizeof(struct gpumap_value_write),
				    .key = "k",
				    .value = "",
				    .reserved = 1 },
			    &revision),
	   -EINVAL);
	memset(longest, 'v', sizeof(longest) - 1);
	memset(key, 'k', sizeof(key) - 1);
	key[sizeof(key) - 1] = '\0';
	EQ(place_put(a, key, "", 0, 0, &revision), -EINVAL);
	key[GPUMAP_VALUE_KEY_MAX] = '\0';
	EQ(place_put(a, key, longest, 0, 0, &revision), -E2BIG);
	longest[GPUMAP_VALUE_BYTES_MAX] = '\0';
	EQ(place_put(a, key, longest, 0, 0, &revision), 0);
	STR(place_text(a, key), longest);
	EQ(place_put(a, key, NULL, revision, 0, &revision), 0);
	gpumap_sync_close(a);
}

static void what_is_no_key_is_refused(struct place *place)
{
	static const char *const keys[] = { "",     "/",    "a/",      "/a",
					    "a//b", "../a", "a b",     ".a",
					    "a/.b", "a\nb", "\xc3\xa4" };
	struct gpumap_sync *a = place_connect(place, 0);
	uint64_t revision = 0;
	size_t bytes;

	if (a == NULL)
		return;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!EQ(place_put(a, keys[i], "v", 0, 0, &revision), -EINVAL) ||
		    !EQ(gpumap_value_get(a, keys[i], NULL, 0, &bytes,
					 &revision),
			-EINVAL))
			NOTE("\"%s\"", keys[i]);
	EQ(place_put(a, "a", "v", 0, 2, &revision), -EINVAL);
	EQ(place_put(a, "a", NULL, 1, GPUMAP_VALUE_EPHEMERAL, &revision),
	   -EINVAL);
	EQ(gpumap_value_wait(a, "/a", 0, 0, &revision), -EINVAL);
	STR(place_text(a, "a"), "");
	gpumap_sync_close(a);
}

/* Children of three nodes add to one number, each by cas. */
static void no_writer_is_lost(struct place *place)
{
	enum { WRITERS = 6, TIMES = 15 };
	struct gpumap_sync *a = place_connect(place, 0);
	uint64_t revision = 0;
	char want[16];

	if (a == NULL || !EQ(place_put(a, "sum", "0", 0, 0, &revision), 0))
		return;
	fflush(stdout);
	for (int i = 0; i < WRITERS; i++) {
		struct gpumap_sync *mine = NULL;

		if (fork() != 0)
			continue;
		if (gpumap_sync_open(place->nodes[i % PLACE_NODES].socket,
				     &mine) != 0)
			_exit(1);
		for (int n = 0; n < TIMES;) {
			char text[16] = "";
			size_t bytes;
			int ret = gpumap_value_get(mine, "sum", text,
						   sizeof(text) - 1, &bytes,
						   &revision);

			if (ret != 0)
				_exit(2);
			snprintf(text, sizeof(text), "%d", atoi(text) + 1);
			ret = place_put(mine, "sum", text, revision, 0,
					&revision);
			if (ret != 0 && ret != -ESTALE)
				_exit(3);
			n += ret == 0;
		}
		_exit(0);
	}
	for (int i = 0; i < WRITERS; i++) {
		int status = 0;

		wait(&status);
		EQ(status, 0);
	}
	snprintf(want, sizeof(want), "%d", WRITERS * TIMES);
	STR(place_text(a, "sum"), want);
	EQ(place_put(a, "sum", NULL, 1, 0, &revision), -ESTALE);
	EQ(place_put(a, "sum", NULL, revision, 0, &revision), 0);
	gpumap_sync_close(a);
}

/* ---- waiting ------------------------------------------------------------- */

static void a_wait_ends_with_a_change(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	struct gpumap_sync *b = place_connect(place, 1);
	uint64_t seen = 0, later = 0, revision = 0, since;
	int status = 0;
	pid_t child;

	if (a == NULL || b == NULL)
		return;
	EQ(gpumap_value_wait(a, "w/", 0, 0, &seen), 0);
	OK(seen != 0);
	since = story_now();
	EQ(gpumap_value_wait(a, "w/", seen, place_in(150), &later), -ETIMEDOUT);
	OK(story_now() - since >= 150000000);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct gpumap_sync *mine = NULL;

		_exit(gpumap_sync_open(place->nodes[1].socket, &mine) != 0 ||
		      place_put(mine, "other/x", "1", 0, 0, &revision) != 0 ||
		      place_put(mine, "w/x", "1", 0, 0, &revision) != 0);
	}
	/* The change of another folder does not end it. */
	EQ(gpumap_value_wait(a, "w/", seen, place_in(60000), &later), 0);
	OK(later > seen);
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	STR(place_text(a, "w/x"), "1");
	/* A change that was before: at once, until it was seen. */
	EQ(gpumap_value_wait(a, "w/x", seen, 0, &later), 0);
	EQ(gpumap_value_wait(a, "w/x", later, 0, &seen), -ETIMEDOUT);
	EQ(gpumap_value_wait(a, "", seen + 1000, 0, &seen), 0);
	EQ(place_put(b, "w/x", NULL, 1, 0, &revision), -ESTALE);
	EQ(place_put(b, "w/x", NULL, revision, 0, &revision), 0);
	EQ(gpumap_value_wait(a, "w/x", later, place_in(60000), &seen), 0);
	/* A single change counts, too. */
	EQ(gpumap_value_wait(a, "w/x", later, 0, &seen), 0);
	EQ(seen, later + 1);
	EQ(place_put(b, "other/x", NULL, 1, 0, &revision), -ESTALE);
	EQ(place_put(b, "other/x", NULL, revision, 0, &revision), 0);
	gpumap_sync_close(a);
	gpumap_sync_close(b);
}

/* ---- ephemeral values ---------------------------------------------------- */

static void an_ephemeral_value_ends_with_its_process(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0), *mine = NULL;
	struct gpumap_sync *b = place_connect(place, 1);
	uint64_t revision = 0, ours = 0;
	int pipes[2], status = 0;
	pid_t child;

	if (a == NULL || b == NULL || pipe2(pipes, O_CLOEXEC) != 0)
		return;
	fflush(stdout);
	child = fork();
	if (child == 0) {
		/* The parent's connection is not the child's to use or end. */
		status = gpumap_value_get(a, "e/1", NULL, 0, (size_t[1]){ 0 },
					  &revision) != -EOWNERDEAD;
		gpumap_sync_close(a);
		if (status != 0 ||
		    gpumap_sync_open(place->nodes[0].socket, &mine) != 0 ||
		    place_put(mine, "e/1", "one", 0, GPUMAP_VALUE_EPHEMERAL,
			      &revision) != 0 ||
		    place_put(mine, "e/2", "two", 0, GPUMAP_VALUE_EPHEMERAL,
			      &revision) != 0 ||
		    write(pipes[1], &revision, sizeof(revision)) < 0)
			_exit(1);
		pause();
	}
	close(pipes[1]);
	EQ(read(pipes[0], &ours, sizeof(ours)), sizeof(ours));
	close(pipes[0]);
	STR(place_text(a, "e/1"), "one");
	/* Another process has taken this one over. */
	EQ(place_put(b, "e/2", "mine", ours, GPUMAP_VALUE_EPHEMERAL, &ours), 0);
	kill(child, SIGKILL);
	EQ(waitpid(child, &status, 0), child);
	OK(place_sees(a, "e/1", ""));
	STR(place_text(a, "e/2"), "mine");
	EQ(gpumap_sync_check(b), 0);
	gpumap_sync_close(b);
	OK(place_sees(a, "e/2", ""));
	/* One that was written for good, later, stays. */
	b = place_connect(place, 1);
	EQ(place_put(b, "e/3", "now", 0, GPUMAP_VALUE_EPHEMERAL, &ours), 0);
	EQ(place_put(b, "e/3", "ever", ours, 0, &ours), 0);
	EQ(place_put(b, "e/4", "end", 0, GPUMAP_VALUE_EPHEMERAL, &revision), 0);
	gpumap_sync_close(b);
	OK(place_sees(a, "e/4", ""));
	STR(place_text(a, "e/3"), "ever");
	EQ(place_put(a, "e/3", NULL, ours, 0, &revision), 0);
	gpumap_sync_close(a);
}

/* A process is told when its gpumap-sync ends, and its values end with it. */
static void a_dead_gpumap_sync_takes_them_along(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	struct gpumap_sync *c = place_connect(place, 2);
	struct pollfd told = { .fd = gpumap_sync_fd(c), .events = POLLIN };
	uint64_t revision = 0;

	if (a == NULL || c == NULL)
		return;
	EQ(place_put(c, "d/1", "one", 0, GPUMAP_VALUE_EPHEMERAL, &revision), 0);
	EQ(gpumap_sync_check(c), 0);
	EQ(poll(&told, 1, 0), 0);
	EQ(sync_node_kill(&place->nodes[2], SIGKILL), -SIGKILL);
	EQ(poll(&told, 1, 30000), 1);
	EQ(gpumap_sync_check(c), -ECONNRESET);
	EQ(place_put(c, "d/2", "two", 0, 0, &revision), -ECONNRESET);
	OK(place_sees(a, "d/1", ""));
	OK(place_start(place, 2));
	gpumap_sync_close(c);
	gpumap_sync_close(a);
}

/* A process with an ephemeral value that waits for what never comes: the loss
 * of the lease ends the wait.  Returns its pid, once it waits. */
static pid_t wait_in_vain(const struct place *place, int node)
{
	struct gpumap_sync *mine = NULL;
	uint64_t revision = 0, seen = 0;
	int ready[2];
	pid_t child;
	char byte;

	EQ(pipe2(ready, O_CLOEXEC), 0);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		if (gpumap_sync_open(place->nodes[node].socket, &mine) != 0 ||
		    place_put(mine, "l/2", "two", 0, GPUMAP_VALUE_EPHEMERAL,
			      &revision) != 0 ||
		    gpumap_value_wait(mine, "quiet/", 0, 0, &seen) != 0 ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		if (gpumap_value_wait(mine, "quiet/", seen, place_in(60000),
				      &seen) != 0)
			_exit(2);
		_exit(gpumap_sync_check(mine) == -ESTALE ? 0 : 3);
	}
	close(ready[1]);
	EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return child;
}

/* A gpumap-sync that stands still for longer than its lease says so. */
static void a_lost_lease_is_told(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	struct gpumap_sync *c = place_connect(place, 2);
	struct pollfd told = { .fd = gpumap_sync_fd(c), .events = POLLIN };
	pid_t pid = place->nodes[2].pid, child;
	uint64_t revision = 0, seen = 0, later = 0;
	int status = 0;

	if (a == NULL || c == NULL)
		return;
	child = wait_in_vain(place, 2);
	EQ(gpumap_value_wait(c, "quiet/", 0, 0, &seen), 0);
	EQ(place_put(c, "l/1", "one", 0, GPUMAP_VALUE_EPHEMERAL, &revision), 0);
	OK(process_stop(pid));
	OK(place_sees(a, "l/1", ""));
	kill(pid, SIGCONT);
	EQ(poll(&told, 1, 30000), 1);
	/* No process waits beside an event that has come. */
	EQ(gpumap_value_wait(c, "quiet/", seen, place_in(60000), &later), 0);
	EQ(later, seen);
	EQ(gpumap_sync_check(c), -ESTALE);
	OK(strstr(gpumap_refusal(NULL), "lease") != NULL);
	EQ(gpumap_value_wait(c, "quiet/", seen, place_in(1), &later),
	   -ETIMEDOUT);
	EQ(gpumap_sync_check(c), 0);
	EQ(poll(&told, 1, 0), 0);
	OK(sync_node_wait_log(&place->nodes[2], "lease_lost"));
	EQ(waitpid(child, &status, 0), child);
	EQ(status, 0);
	for (int ret = -EHOSTUNREACH; ret == -EHOSTUNREACH;) {
		ret = place_put(c, "l/1", "two", 0, GPUMAP_VALUE_EPHEMERAL,
				&revision);
		if (ret != -EHOSTUNREACH)
			EQ(ret, 0);
		story_nap(20000);
	}
	STR(place_text(a, "l/1"), "two");
	gpumap_sync_close(c);
	OK(place_sees(a, "l/1", ""));
	gpumap_sync_close(a);
}

/* ---- users --------------------------------------------------------------- */

static const char *other_socket;

static int live_as_other(void)
{
	struct gpumap_sync *mine = NULL;
	uint64_t revision = 0;

	if (gpumap_sync_open(other_socket, &mine) != 0)
		return 1;
	if (strcmp(place_text(mine, "u/x"), "") != 0)
		return 2;
	if (place_put(mine, "u/x", "theirs", 0, 0, &revision) != 0 ||
	    place_put(mine, "u/x", NULL, revision, 0, &revision) != 0)
		return 3;
	return 0;
}

static void users_have_values_of_their_own(struct place *place)
{
	struct gpumap_sync *a = place_connect(place, 0);
	uint64_t revision = 0;

	if (a == NULL)
		return;
	if (getuid() != 0) {
		SKIP(2, "only root becomes another user");
		gpumap_sync_close(a);
		return;
	}
	EQ(place_put(a, "u/x", "ours", 0, 0, &revision), 0);
	other_socket = place->nodes[0].socket;
	EQ(user_run(OTHER, live_as_other), 0);
	STR(place_text(a, "u/x"), "ours");
	EQ(place_put(a, "u/x", NULL, revision, 0, &revision), 0);
	gpumap_sync_close(a);
}

static void tell(struct place *place)
{
	a_value_is_written_once(place);
	keys_are_listed(place);
	what_fits_and_what_does_not(place);
	what_is_no_key_is_refused(place);
	no_writer_is_lost(place);
	a_wait_ends_with_a_change(place);
	an_ephemeral_value_ends_with_its_process(place);
	a_dead_gpumap_sync_takes_them_along(place);
	a_lost_lease_is_told(place);
	users_have_values_of_their_own(place);
}

TAP_CASE()
{
	place_each(tell, SYNC_TTL_MS);
	return tap_done();
}
