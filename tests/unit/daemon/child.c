/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* child: all that a process said comes before its end, the end comes once, and
 * a limit ends it. */

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/daemon/base/child.h"
#include "tests/support/tap.h"

static struct gm_loop loop;
static struct gm_child child;
static char heard[64]; /* the first bytes of records */
static uint32_t n_heard, n_ended;
static int last_status;
static char last_how[64];
static bool ends_at_once; /* said() drops the child */
static bool starts_again;

static int start(const struct gm_child_kind *kind, const char *script)
{
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };

	n_heard = n_ended = 0;
	last_status = -2;
	loop.stop = false;
	return gm_child_start(&child, &loop, kind, argv, environ);
}

static bool said(struct gm_child *c, void *record)
{
	EQ(c == &child, true);
	EQ(n_ended, 0);
	if (n_heard < sizeof(heard))
		heard[n_heard++] = *(char *)record;
	if (ends_at_once) {
		gm_child_drop(c);
		gm_loop_stop(&loop);
	}
	return *(char *)record != '!';
}

static void ended(struct gm_child *c, const char *how, int status)
{
	EQ(c->state, GM_CHILD_NONE);
	n_ended++;
	last_status = status;
	snprintf(last_how, sizeof(last_how), "%s", how);
	if (!starts_again) {
		gm_loop_stop(&loop);
		return;
	}
	starts_again = false;
	EQ(start(c->kind, "printf zzzz >&3"), 0);
}

static const struct gm_child_kind of_records = { .record_bytes = 4,
						 .said = said,
						 .ended = ended };
static const struct gm_child_kind of_text = { .ended = ended };

static void words_come_before_the_end(void)
{
	EQ(start(&of_records, "for i in a b c; do printf ${i}xyz >&3; done; "
			      "exit 7"),
	   0);
	EQ(gm_loop_run(&loop), 0);
	EQ(n_heard, 3);
	EQ(memcmp(heard, "abc", 3), 0);
	EQ(n_ended, 1);
	EQ(last_status, 7);
	STR(child.why, "");
	/* A socket that is closed is no end. */
	EQ(start(&of_records, "printf 1xyz >&3; exec 3>&-; sleep 0.05"), 0);
	EQ(gm_loop_run(&loop), 0);
	EQ(n_heard, 1);
	EQ(last_status, 0);
}

static void strange_words_end_it(void)
{
	static const char *const scripts[] = {
		"printf abcd >&3; printf abcde >&3; exec sleep 100",
		"printf abcd >&3; printf abc >&3; exec sleep 100",
		"printf abcd >&3; printf '!bcd' >&3; exec sleep 100",
	};

	for (size_t i = 0; i < 3; i++) {
		EQ(start(&of_records, scripts[i]), 0);
		EQ(gm_loop_run(&loop), 0);
		EQ(n_heard, i == 2 ? 2 : 1);
		EQ(last_status, -1);
		STR(last_how, "killed by SIGKILL");
		OK(strstr(child.why, "no record") != NULL);
	}
}

static void limit_ends_it(void)
{
	EQ(start(&of_records, "exec sleep 100"), 0);
	gm_child_limit(&child, 10000000, "too slow");
	EQ(gm_loop_run(&loop), 0);
	EQ(n_ended, 1);
	STR(child.why, "too slow");
	EQ(start(&of_records, "cat <&3 >/dev/null; exec sleep 100"), 0);
	gm_child_hang_up(&child, 10000000, "it stays");
	EQ(gm_child_send(&child, "abcd", 4), -EPIPE);
	EQ(gm_loop_run(&loop), 0);
	STR(child.why, "it stays");
	STR(last_how, "killed by SIGKILL");
}

static void last_line_is_kept(void)
{
	EQ(start(&of_text, "echo one; echo two >&2; printf 'and '; echo three; "
			   "exit 1"),
	   0);
	EQ(gm_loop_run(&loop), 0);
	STR(child.line, "and three");
	EQ(last_status, 1);
	EQ(start(&of_text, "i=0; while [ $i -lt 200 ]; do printf 12345678; "
			   "i=$((i+1)); done; exit 0"),
	   0);
	EQ(gm_loop_run(&loop), 0);
	EQ(strlen(child.line), sizeof(child.line) - 1);
}

static void one_that_is_dropped_is_not_heard_of(void)
{
	ends_at_once = true;
	EQ(start(&of_records, "printf aaaa >&3; printf bbbb >&3"), 0);
	EQ(gm_loop_run(&loop), 0);
	ends_at_once = false;
	EQ(n_heard, 1);
	EQ(n_ended, 0);
	OK(!gm_child_exists(&child));
	gm_child_exit(&child, gm_loop_now() + 30000000000);
}

static void end_may_be_a_start(void)
{
	starts_again = true;
	EQ(start(&of_records, "printf aaaa >&3"), 0);
	EQ(gm_loop_run(&loop), 0);
	EQ(n_ended, 1);
	EQ(heard[0], 'z');
	EQ(start(&of_records, "exec sleep 100"), 0);
	gm_child_exit(&child, gm_loop_now() + 30000000000);
	OK(!gm_child_exists(&child));
	EQ(n_ended, 0);
}

static void program_that_is_not_there_is_no_child(void)
{
	const char *const argv[] = { "/nonexistent", NULL };

	EQ(gm_child_start(&child, &loop, &of_records, argv, environ), -ENOENT);
	OK(!gm_child_exists(&child));
}

static void rests_grow(void)
{
	EQ(gm_child_rest(100, 4, 0, 1000), 100);
	EQ(gm_child_rest(100, 4, 1, 1000), 100);
	EQ(gm_child_rest(100, 4, 2, 1000), 400);
	EQ(gm_child_rest(100, 4, 3, 1000), 1000);
	EQ(gm_child_rest(100, 2, 4000000000u, 1000), 1000);
}

TAP_CASE()
{
	if (!EQ(gm_loop_init(&loop), 0))
		return tap_done();
	words_come_before_the_end();
	strange_words_end_it();
	limit_ends_it();
	last_line_is_kept();
	one_that_is_dropped_is_not_heard_of();
	end_may_be_a_start();
	program_that_is_not_there_is_no_child();
	rests_grow();
	gm_loop_exit(&loop);
	return tap_done();
}
