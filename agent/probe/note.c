/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/note.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

void gm_note_send(const struct gm_note *note)
{
	ssize_t n;

	do {
		n = send(GM_PROBE_FD, note, sizeof(*note), MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	/* No exit handlers: a library of NVIDIA's may hang in its own. */
	if (n < 0)
		_exit(EXIT_FAILURE);
}

void gm_note_call(const char *what)
{
	struct gm_note note = { .type = GM_NOTE_CALL };

	gm_note_text(&note, "%s", what);
	gm_note_send(&note);
}

void gm_note_text(struct gm_note *note, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(note->text, sizeof(note->text), format, args);
	va_end(args);
}
