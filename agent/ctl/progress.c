/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/progress.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "agent/ctl/fields.h"

#define PATIENCE_NS (GM_CLOCK_SECOND / 2)
#define REDRAW_NS   (GM_CLOCK_SECOND / 10)

/* ---- the terminal -------------------------------------------------------- */

#define CLEAR "\r\033[K"

static const int endings[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };

#define N_ENDINGS (sizeof(endings) / sizeof(endings[0]))

/* A signal ends the process, or stops it: nothing is drawn. */
static volatile sig_atomic_t is_ending, is_stopped;

static void clear(void)
{
	ssize_t n = write(STDERR_FILENO, CLEAR, sizeof(CLEAR) - 1);

	(void)n;
}

/* Clear the line, and end by the signal: its action is the default again. */
static void clear_and_end(int number)
{
	is_ending = 1;
	clear();
	raise(number);
}

/* Clear the line, and stop until the shell lets the process go on. */
static void clear_and_stop(int number)
{
	(void)number;
	is_stopped = 1;
	clear();
	raise(SIGSTOP);
	is_stopped = 0;
}

/* Signals that the command minds itself stay its own. */
static void replace(int number, void (*from)(int), void (*to)(int), int flags)
{
	const struct sigaction action = { .sa_handler = to, .sa_flags = flags };
	struct sigaction now;

	if (sigaction(number, NULL, &now) == 0 && now.sa_handler == from)
		sigaction(number, &action, NULL);
}

static void mind_signals(bool minds)
{
	for (size_t i = 0; i < N_ENDINGS; i++)
		replace(endings[i], minds ? SIG_DFL : clear_and_end,
			minds ? clear_and_end : SIG_DFL,
			minds ? (int)SA_RESETHAND : 0);
	replace(SIGTSTP, minds ? SIG_DFL : clear_and_stop,
		minds ? clear_and_stop : SIG_DFL, minds ? SA_RESTART : 0);
}

/* Does another job have the terminal?  False where there is none. */
static bool is_background(void)
{
	pid_t group = tcgetpgrp(STDERR_FILENO);

	return group >= 0 && group != getpgrp();
}

/* Is there a terminal on which a line can be drawn anew, and that no other job
 * has? */
static bool has_terminal(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) == 1 && term != NULL && term[0] != '\0' &&
	       strcmp(term, "dumb") != 0 && !is_background();
}

/* ---- what is shown ------------------------------------------------------- */

static void unit_of(const struct gm_ctl *ctl, const void *facts,
		    char ret_text[GM_CTL_CELL])
{
	const struct gm_progress_facts *f = facts;

	strcpy(ret_text, f->unit != NULL ? f->unit : "bytes");
}

static const struct gm_ctl_field facts_fields[] = {
	GM_FIELD(gm_progress_facts, "what", what),
	GM_FIELD(gm_progress_facts, "name", name),
	GM_FIELD(gm_progress_facts, "unit", unit, .text = unit_of),
	GM_MEMBERS(gm_progress_facts, done),
	GM_FIELD(gm_progress_facts, "total", total, .as = GM_AS_OR_NULL),
	GM_MEMBERS(gm_progress_facts, elapsed_ns, per_second),
	GM_FIELD(gm_progress_facts, "left_ns", left_ns, .as = GM_AS_OR_MAX),
	{ 0 },
};

/* Under the lock. */
static void show(struct gm_progress *p)
{
	struct gm_progress_facts *f = &p->facts;
	uint64_t now = gm_clock_ns();
	struct winsize size = { .ws_col = 0 };
	char line[GM_PROGRESS_LINE];

	if (f->total != 0 && f->done > f->total)
		f->total = f->done;
	f->elapsed_ns = now - p->begun_ns;
	f->per_second = gm_progress_rate(&p->rate, now, f->done);
	f->left_ns = gm_progress_left(f->done, f->total, f->per_second);
	if (is_ending || is_stopped || (p->is_line && is_background()))
		return;
	p->is_shown = true;
	if (p->ctl->json) {
		gm_ctl_print(json_pack("{s:o}", "progress",
				       gm_ctl_fields_json(p->ctl, facts_fields,
							  f, NULL)));
		fflush(stdout);
	} else if (p->is_line) {
		ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
		fprintf(stderr, "\r%s\033[K",
			gm_progress_line(f, size.ws_col > 0 ? size.ws_col : 80,
					 line));
	} else {
		fprintf(stderr, "%s\n",
			gm_progress_line(f, GM_PROGRESS_LINE, line));
	}
}

static void tick(void *data)
{
	struct gm_progress *p = data;

	pthread_mutex_lock(&p->lock);
	show(p);
	pthread_mutex_unlock(&p->lock);
	if (p->look != NULL)
		p->look(p);
}

void gm_progress_begin(struct gm_progress *p, const struct gm_ctl *ctl,
		       const char *what, const char *name, const char *unit,
		       uint64_t total)
{
	p->ctl = ctl;
	p->is_line = !ctl->json && has_terminal();
	if (!p->is_line && !ctl->progress)
		return;
	p->facts = (struct gm_progress_facts){
		.what = what, .name = name, .unit = unit, .total = total
	};
	p->begun_ns = gm_clock_ns();
	pthread_mutex_init(&p->lock, NULL);
	if (p->is_line)
		mind_signals(true);
	p->ticker = (struct gm_clock_ticker){
		.tick = tick,
		.data = p,
		.next_ns = p->begun_ns + PATIENCE_NS,
		.step_ns = p->is_line ? REDRAW_NS : GM_CLOCK_SECOND
	};
	gm_clock_ticker_begin(&p->ticker);
}

void gm_progress_tell(struct gm_progress *p, uint64_t done, uint64_t total)
{
	if (!p->ticker.runs)
		return;
	pthread_mutex_lock(&p->lock);
	p->facts.total = total;
	if (total != 0 && done > total)
		done = total;
	if (done > p->facts.done)
		p->facts.done = done;
	pthread_mutex_unlock(&p->lock);
}

void gm_progress_note(struct gm_progress *p, const char *note)
{
	if (!p->ticker.runs)
		return;
	pthread_mutex_lock(&p->lock);
	p->facts.note = note;
	pthread_mutex_unlock(&p->lock);
}

void gm_progress_end(struct gm_progress *p, bool is_done)
{
	struct gm_progress_facts *f = &p->facts;

	if (!p->ticker.runs)
		return;
	gm_clock_ticker_end(&p->ticker);
	f->note = NULL;
	if (is_done && f->total == 0)
		f->total = f->done;
	if (is_done)
		f->done = f->total;
	if (p->is_line && p->is_shown)
		fputs(CLEAR, stderr);
	else if (is_done && p->is_shown)
		show(p);
	if (p->is_line)
		mind_signals(false);
	pthread_mutex_destroy(&p->lock);
}
