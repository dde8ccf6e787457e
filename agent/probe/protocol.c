/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/protocol.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/probe/probe.h"

#define CLOSE(text) ((text)[sizeof(text) - 1] = '\0')

/* The records that each role sends.  Every role sends CALL. */
static const uint32_t speaker[] = {
	[GM_NOTE_CENSUS] = GM_ROLE_CENSUS, [GM_NOTE_PLACE] = GM_ROLE_CENSUS,
	[GM_NOTE_CARD] = GM_ROLE_WATCH,    [GM_NOTE_MOVING] = GM_ROLE_WATCH,
	[GM_NOTE_EVENT] = GM_ROLE_WATCH,   [GM_NOTE_GONE] = GM_ROLE_WATCH,
	[GM_NOTE_TROUBLE] = GM_ROLE_WATCH, [GM_NOTE_PEERS] = GM_ROLE_PEERS,
	[GM_NOTE_DRIVER] = GM_ROLE_DRIVER, [GM_NOTE_DRIVEN] = GM_ROLE_DRIVER,
	[GM_NOTE_PROCESS] = GM_ROLE_WATCH,
};

static void close_device(struct gm_probe_device *device)
{
	CLOSE(device->name);
	CLOSE(device->id);
	CLOSE(device->facts.cpus);
	CLOSE(device->facts.mig_profile);
}

int gm_protocol_check(struct gm_note *note, uint32_t role)
{
	CLOSE(note->text);
	if (note->health > GM_PROBE_TAKEN)
		return -EPROTO;
	if (note->type == GM_NOTE_CALL)
		return 0;
	if (note->type >= sizeof(speaker) / sizeof(speaker[0]) ||
	    speaker[note->type] != role)
		return -EPROTO;
	switch (note->type) {
	case GM_NOTE_CENSUS:
		if (note->census.outcome != 0 &&
		    note->census.outcome != GM_PROBE_ABSENT &&
		    note->census.outcome != GM_PROBE_BROKEN)
			return -EPROTO;
		return note->census.n_cards <= GM_PROBE_GPUS ? 0 : -EPROTO;
	case GM_NOTE_PLACE:
		CLOSE(note->place.id);
		return 0;
	case GM_NOTE_CARD:
		close_device(&note->card.device);
		return 0;
	case GM_NOTE_PROCESS:
		return note->process.index < GM_PROBE_PROCESSES &&
				       note->process.n <= GM_PROBE_LINE
			       ? 0
			       : -EPROTO;
	default:
		return 0;
	}
}

void gm_protocol_send(const struct gm_note *note)
{
	ssize_t n;

	do {
		n = send(GM_PROBE_FD, note, sizeof(*note), MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	/* No exit handlers: a library of NVIDIA's may hang in its own. */
	if (n < 0)
		_exit(EXIT_FAILURE);
}

void gm_protocol_call(const char *what)
{
	struct gm_note note = { .type = GM_NOTE_CALL };

	gm_protocol_text(&note, "%s", what);
	gm_protocol_send(&note);
}

void gm_protocol_text(struct gm_note *note, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(note->text, sizeof(note->text), format, args);
	va_end(args);
}
