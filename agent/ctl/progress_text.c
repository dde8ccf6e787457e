/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* A line of text for progress.c. */

#include "agent/ctl/progress.h"

#include <stdio.h>
#include <string.h>

#define SECOND  GM_CLOCK_SECOND
#define TEXT    128 /* bytes of a part of the line */
#define BAR_MIN 8u  /* columns */
#define BAR_MAX 30u

uint64_t gm_progress_rate(struct gm_progress_rate *rate, uint64_t now_ns,
			  uint64_t done)
{
	uint32_t n =
		rate->n < GM_PROGRESS_SAMPLES ? rate->n : GM_PROGRESS_SAMPLES;
	struct gm_progress_sample oldest = { now_ns, done };

	if (n > 0)
		oldest = rate->v[(rate->n - n) % GM_PROGRESS_SAMPLES];
	if (n == 0 ||
	    now_ns - rate->v[(rate->n - 1) % GM_PROGRESS_SAMPLES].ns >=
		    SECOND / 2)
		rate->v[rate->n++ % GM_PROGRESS_SAMPLES] =
			(struct gm_progress_sample){ now_ns, done };
	if (now_ns <= oldest.ns || done <= oldest.done)
		return 0;
	return (uint64_t)((double)(done - oldest.done) * (double)SECOND /
			  (double)(now_ns - oldest.ns));
}

uint64_t gm_progress_left(uint64_t done, uint64_t total, uint64_t per_second)
{
	double ns;

	if (total == 0)
		return UINT64_MAX;
	if (done >= total)
		return 0;
	if (per_second == 0)
		return UINT64_MAX;
	ns = (double)(total - done) * (double)SECOND / (double)per_second;
	return ns < (double)INT64_MAX ? (uint64_t)ns : UINT64_MAX;
}

/* "1 h 02 min", "3 min 20 s", "12 s" */
static const char *duration(uint64_t ns, char ret_text[TEXT])
{
	unsigned long long s = ns / SECOND + (ns % SECOND >= SECOND / 2);

	if (s >= 3600)
		snprintf(ret_text, TEXT, "%llu h %02llu min", s / 3600,
			 s % 3600 / 60);
	else if (s >= 60)
		snprintf(ret_text, TEXT, "%llu min %02llu s", s / 60, s % 60);
	else
		snprintf(ret_text, TEXT, "%llu s", s);
	return ret_text;
}

/* "3.2 GiB", or "12", without the unit. */
static const char *amount(const struct gm_progress_facts *f, uint64_t n,
			  char ret_text[TEXT])
{
	char size[GM_SIZE_TEXT];

	if (f->unit == NULL)
		snprintf(ret_text, TEXT, "%s", gm_size_text(n, size));
	else
		snprintf(ret_text, TEXT, "%llu", (unsigned long long)n);
	return ret_text;
}

/* "[###.....] ", which is @n columns wide. */
static void put_bar(const struct gm_progress_facts *f, uint32_t n, char *text)
{
	uint32_t cells = n - 3 < BAR_MAX ? n - 3 : BAR_MAX;
	uint32_t full = (uint32_t)((double)f->done / (double)f->total * cells);

	*text++ = '[';
	for (uint32_t i = 0; i < cells; i++)
		*text++ = i < full ? '#' : '.';
	strcpy(text, "] ");
}

const char *gm_progress_line(const struct gm_progress_facts *f,
			     uint32_t columns, char ret_line[GM_PROGRESS_LINE])
{
	uint32_t room = columns < GM_PROGRESS_LINE ? columns : GM_PROGRESS_LINE;
	const char *unit = f->unit != NULL ? f->unit : "";
	const char *blank = f->unit != NULL ? " " : "";
	char head[TEXT], bar[TEXT] = "", percent[TEXT] = "", amounts[TEXT];
	char rate[TEXT] = "", time[TEXT], part[2][TEXT], text[6 * TEXT];
	size_t n;

	/* "load llama: " */
	snprintf(head, TEXT, "%.24s%s%.63s: ", f->what,
		 f->name != NULL ? " " : "", f->name != NULL ? f->name : "");
	/* "3.2 GiB of 6.4 GiB", "12 of 256 files" */
	amount(f, f->done, part[0]);
	if (f->note != NULL)
		snprintf(amounts, TEXT, "%s", f->note);
	else if (f->total != 0)
		snprintf(amounts, TEXT, "%.32s of %.32s%s%.24s", part[0],
			 amount(f, f->total, part[1]), blank, unit);
	else
		snprintf(amounts, TEXT, "%.32s%s%.24s", part[0], blank, unit);
	if (f->per_second != 0)
		snprintf(rate, TEXT, ", %.32s/s",
			 amount(f, f->per_second, part[0]));
	/* The time that is left, or has been taken where that is unknown. */
	if (f->left_ns != UINT64_MAX)
		snprintf(time, TEXT, ", %.48s left",
			 duration(f->left_ns, part[0]));
	else
		snprintf(time, TEXT, ", %.48s",
			 duration(f->elapsed_ns, part[0]));
	if (f->total != 0)
		snprintf(percent, TEXT, "%3u %%  ",
			 (unsigned int)((double)f->done / (double)f->total *
					100));
	n = strlen(head) + strlen(percent) + strlen(amounts) + strlen(rate) +
	    strlen(time);
	if (f->total != 0 && n + BAR_MIN + 4 <= room)
		put_bar(f, room - (uint32_t)n - 1, bar);
	if (n >= room) {
		n -= strlen(time);
		time[0] = '\0';
	}
	if (n >= room) {
		n -= strlen(rate);
		rate[0] = '\0';
	}
	if (n >= room)
		snprintf(head, TEXT, "%.24s: ", f->what);
	snprintf(text, sizeof(text), "%s%s%s%s%s%s", head, bar, percent,
		 amounts, rate, time);
	if (room > 0)
		room--;
	text[room] = '\0';
	strcpy(ret_line, text);
	for (char *at = ret_line; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			*at = '?'; /* a name may have any bytes */
	return ret_line;
}
