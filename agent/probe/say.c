/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/probe/say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

void gm_say_record(const struct gm_probe_wire *wire)
{
	ssize_t n;

	do {
		n = send(GM_PROBE_FD, wire, sizeof(*wire), MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		_exit(EXIT_FAILURE);
}

void gm_say_call(const char *what)
{
	struct gm_probe_wire wire = { .type = GM_PROBE_CALL };

	gm_say_text(&wire, "%s", what);
	gm_say_record(&wire);
}

void gm_say_text(struct gm_probe_wire *wire, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(wire->text, sizeof(wire->text), format, args);
	va_end(args);
}

void gm_say_done(struct gm_probe_wire *wire)
{
	wire->type = GM_PROBE_DONE;
	gm_say_record(wire);
	_exit(EXIT_SUCCESS);
}
