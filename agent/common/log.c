/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/text.h"

#define SECOND_NS UINT64_C(1000000000)

#define EVENTS    128 /* kinds that are counted; more go uncounted */

#define DAY       86400

/* Sockets of systemd-journald have this in their paths. */
#define JOURNAL "/systemd/journal/"

static const char *context;
static bool is_stamped;
static _Atomic unsigned int lost; /* lines that were not written */

/* Lines of each kind in the running second. */
static struct {
	const char *event;
	time_t second;
	unsigned int n;
} counted[EVENTS];
/* Log lines of uids, as time that they take at GM_LOG_UID_RATE: until when.  A
 * place is free for another uid once that has passed; until then all uids that
 * meet there share it. */
static uint64_t paid_ns[256];

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

void gm_log_context(const char *pairs)
{
	context = pairs;
}

void gm_log_stamp(void)
{
	struct sockaddr_un peer = { .sun_family = AF_UNSPEC };
	socklen_t bytes = sizeof(peer) - 1;

	is_stamped = getpeername(STDERR_FILENO, (struct sockaddr *)&peer,
				 &bytes) != 0 ||
		     peer.sun_family != AF_UNIX ||
		     strstr(peer.sun_path, JOURNAL) == NULL;
}

/* The length that snprintf() wants, cut to the room that there is. */
static size_t clip(int wanted, size_t room)
{
	if (wanted < 0)
		return 0;
	return (size_t)wanted < room ? (size_t)wanted : room - 1;
}

/* A reader of our log that has stopped must not stop us: where POLLOUT is not
 * given, not even a line as short as this would fit. */
static bool put_line(const char *line, size_t n)
{
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (poll(&out, 1, 0) == 0) {
		lost++;
		return false;
	}
	while (write(STDERR_FILENO, line, n) < 0 && errno == EINTR)
		;
	return true;
}

/* A flood of one kind of event must not fill the disk, nor hide events of
 * another kind. */
static bool too_many(const char *event)
{
	struct timespec now;
	unsigned int n = 0;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	pthread_mutex_lock(&counting);
	for (int i = 0; i < EVENTS; i++) {
		if (counted[i].event == NULL)
			counted[i].event = event;
		if (strcmp(counted[i].event, event) != 0)
			continue;
		if (counted[i].second != now.tv_sec)
			counted[i].n = 0;
		counted[i].second = now.tv_sec;
		n = ++counted[i].n;
		break;
	}
	pthread_mutex_unlock(&counting);
	return n > GM_LOG_RATE;
}

static bool too_many_of(unsigned int uid)
{
	const uint64_t each = SECOND_NS / GM_LOG_UID_RATE;
	uint64_t *paid = &paid_ns[uid % 256], now;
	struct timespec coarse;
	bool is_late;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
	now = (uint64_t)coarse.tv_sec * SECOND_NS + (uint64_t)coarse.tv_nsec;
	pthread_mutex_lock(&counting);
	if (*paid < now)
		*paid = now;
	is_late = *paid - now > (GM_LOG_UID_BURST - 1) * each;
	if (!is_late)
		*paid += each;
	pthread_mutex_unlock(&counting);
	return is_late;
}

/* The date of a day since 1970.  gmtime() would open files, which a worker may
 * not. */
static void find_date(int64_t day, int *ret_year, int *ret_month, int *ret_day)
{
	/* Years begin with March here, so that a leap day is their last. */
	int64_t since = day + 719468, era = since / 146097;
	int64_t of_era = since % 146097;
	int64_t year =
		(of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) /
		365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t month = (5 * of_year + 2) / 153;

	*ret_day = (int)(of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (int)(month < 10 ? month + 3 : month - 9);
	*ret_year = (int)(year + era * 400 + (*ret_month <= 2));
}

static size_t put_time(char *line, size_t room)
{
	struct timespec now;
	int year, month, day, s;

	clock_gettime(CLOCK_REALTIME, &now);
	find_date(now.tv_sec / DAY, &year, &month, &day);
	s = (int)(now.tv_sec % DAY);
	return clip(snprintf(line, room,
			     "time=%04d-%02d-%02dT%02d:%02d:%02d.%03dZ ", year,
			     month, day, s / 3600, s / 60 % 60, s % 60,
			     (int)(now.tv_nsec / 1000000)),
		    room);
}

static void __attribute__((format(printf, 3, 0)))
put(enum gm_log_level level, const char *event, const char *format,
    va_list args)
{
	static const char *const names[] = { "info", "warning", "error" };
	char line[GM_LOG_BYTES];
	size_t room = sizeof(line) - 1; /* for the newline */
	size_t n = is_stamped ? put_time(line, room) : 0;
	unsigned int n_lost = lost;

	n += clip(snprintf(line + n, room - n, "level=%s event=%s",
			   names[level], event),
		  room - n);
	if (format != NULL && n + 2 < room) {
		line[n++] = ' ';
		n += clip(vsnprintf(line + n, room - n, format, args),
			  room - n);
	}
	if (n_lost != 0)
		n += clip(snprintf(line + n, room - n, " lost=%u", n_lost),
			  room - n);
	if (context != NULL)
		n += clip(snprintf(line + n, room - n, " %s", context),
			  room - n);
	/* One event, one line: whatever is in it, it does not end before its
	 * end. */
	line[n] = '\0';
	gm_text_make_plain(line, n);
	line[n++] = '\n';

	if (put_line(line, n) && n_lost != 0)
		lost -= n_lost;
}

void gm_log(enum gm_log_level level, const char *event, const char *format, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, format);
	if (too_many(event))
		lost++;
	else
		put(level, event, format, args);
	va_end(args);
	errno = saved;
}

void gm_log_of(unsigned int uid, enum gm_log_level level, const char *event,
	       const char *format, ...)
{
	int saved = errno;
	va_list args;

	va_start(args, format);
	if (too_many_of(uid) || too_many(event))
		lost++;
	else
		put(level, event, format, args);
	va_end(args);
	errno = saved;
}

struct gm_quoted gm_quote(const char *text)
{
	struct gm_quoted quoted;
	size_t n = 0;

	quoted.text[n++] = '"';
	for (; *text != '\0' && n + 4 <= sizeof(quoted.text); text++) {
		if (*text == '"' || *text == '\\')
			quoted.text[n++] = '\\';
		quoted.text[n++] = *text;
	}
	quoted.text[n++] = '"';
	quoted.text[n] = '\0';
	return quoted;
}
