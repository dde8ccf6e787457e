/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * log - one line of key=value pairs per event, on standard error.
 *
 *	level=info event=ready instance=node epoch=3 rows=2 pid=812
 *
 * A line is one write(2), so lines of several processes do not mix.  Where
 * standard error takes nothing at the moment, because its reader has stopped,
 * the line is dropped rather than waited for; so is a line of a kind of which
 * there were GM_LOG_RATE in this second.  The next line that is taken ends with
 * lost=N.  For events that clients cause each uid has GM_LOG_UID_BURST lines at
 * once, and GM_LOG_UID_RATE a second from there on, so that one uid's
 * repetitions do not hide the events of others.  Bytes that are no printable
 * text are written as '?', and a line longer than GM_LOG_BYTES is cut.
 */
#ifndef GM_LOG_H
#define GM_LOG_H

#define GM_LOG_BYTES     1024
#define GM_QUOTE_BYTES   640
#define GM_LOG_RATE      200u /* lines of one event in a second */

#define GM_LOG_UID_BURST 150u
#define GM_LOG_UID_RATE  20u

enum gm_log_level { GM_LOG_INFO, GM_LOG_WARNING, GM_LOG_ERROR };

/*
 * gm_log - write one line
 *
 * event	a word: what happened; constant text, kept by address
 * format	" key=value" pairs of printf, without the leading blank; NULL
 *		for none.  Text that may hold blanks goes through gm_quote().
 *
 * Threads	any
 */
void gm_log(enum gm_log_level level, const char *event, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* gm_log_of - the same of what a client of @uid has done. */
void gm_log_of(unsigned int uid, enum gm_log_level level, const char *event,
	       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Begin each line with the time, "time=2026-11-25T03:30:00.123Z ", unless
 * standard error is a socket of the journal, which keeps the time itself.  To
 * be called before threads are, and before system calls are given up. */
void gm_log_stamp(void);

/* Pairs to end every line of this process with, such as "row=1".  Kept by
 * address; NULL for none, as at first. */
void gm_log_context(const char *pairs);

/* A value in double quotes, with '"' and '\' escaped; cut where it is longer
 * than fits.  Use as gm_quote(text).text. */
struct gm_quoted {
	char text[GM_QUOTE_BYTES];
};
struct gm_quoted gm_quote(const char *text);

#endif
