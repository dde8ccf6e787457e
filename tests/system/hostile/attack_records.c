/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Attacks through the control socket. */

#include "tests/system/hostile/attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gpumap.h"

#define FDS_MAX 253 /* descriptors of one message, the kernel's limit */
#define TYPES   (GM_CONTROL_SHARE_FDS + 4) /* some of no request's */

static bool open_known(struct hostile *h, struct raw *c)
{
	while (hostile_goes_on(h)) {
		if (raw_open(c, h->path) == 0)
			return true;
		raw_close(c);
		raw_nap(100000);
	}
	return false;
}

/* ---- unexpected descriptors -------------------------------------------- */

static void descriptor_floods(struct hostile *h)
{
	int fds[FDS_MAX], error;
	struct raw c;

	while (open_known(h, &c)) {
		struct raw_record record = {
			.header = raw_header(&c, GM_CONTROL_LIST,
					     sizeof(struct gm_list_ask), 0),
			.body = (struct gm_list_ask[]){ { 0 } },
			.body_bytes = sizeof(struct gm_list_ask),
			.fds = fds,
			.n_fds = 1 + (uint32_t)hostile_below(h, FDS_MAX),
		};

		/* The connection itself is among the descriptors: a cycle for
		 * the kernel's collector of descriptors in flight. */
		for (uint32_t i = 0; i < record.n_fds; i++)
			fds[i] = i % 2 ? c.socket : STDERR_FILENO;
		/* A kernel with SO_PASSRIGHTS refuses descriptors on
		 * connections without a session.  The kernel also refuses to
		 * send while too many earlier ones are in flight. */
		error = raw_send(&c, &record, MSG_DONTWAIT);
		if (error == -EPERM && raw_session(&c, 16, 0, 4096) == 0)
			error = raw_send(&c, &record, MSG_DONTWAIT);
		if (error != 0) {
			raw_close(&c);
			raw_nap(1000000);
			continue;
		}
		while (raw_send(&c, &record, MSG_DONTWAIT) == 0)
			;
		hostile_must_end(h, &c, "descriptors in a request");
		hostile_round(h);
	}
	raw_close(&c);
}

/* ---- broken records ---------------------------------------------------- */

/* Change one field of a good request so that it ends a connection. */
static const char *spoil(struct hostile *h, struct raw_record *r)
{
	switch (hostile_below(h, 5)) {
	case 0:
		r->header.magic ^= 1u << hostile_below(h, 32);
		return "another magic";
	case 1:
		r->header.bytes += 1 + (uint32_t)hostile_below(h, 1u << 31);
		return "a length that is too long";
	case 2:
		r->header.bytes -= 1;
		return "a length that is too short";
	case 3:
		r->header.body += 1 + (uint32_t)hostile_below(h, 1u << 31);
		return "a body past its record";
	default:
		r->body_bytes = (uint32_t)hostile_below(h, r->body_bytes);
		return "half a message";
	}
}

static void bad_records(struct hostile *h)
{
	struct raw c;

	while (open_known(h, &c)) {
		struct gm_session_open open = { .depth = 16 };
		struct raw_record record = {
			.header = raw_header(&c, GM_CONTROL_SESSION_OPEN,
					     sizeof(open), 0),
			.body = &open,
			.body_bytes = sizeof(open),
		};
		const char *what = spoil(h, &record);

		raw_send(&c, &record, 0);
		hostile_must_end(h, &c, what);
		hostile_round(h);
	}
	raw_close(&c);
}

/* A request's number.  Where the attackers are the agent's own user, it would
 * grant those that only an administrator may make. */
static uint16_t any_type(struct hostile *h)
{
	for (;;) {
		uint16_t type = (uint16_t)hostile_below(h, TYPES);
		struct stat st;

		if (type != GM_CONTROL_DRAIN && type != GM_CONTROL_CORDON &&
		    type != GM_CONTROL_CALIBRATE)
			return type;
		if (stat(h->path, &st) == 0 && st.st_uid != geteuid())
			return type;
	}
}

/* Send random bytes of any length, the longest included. */
static void noise(struct hostile *h)
{
	static char bytes[GM_CONTROL_BYTES_MAX + 4096];
	static const int room = 2 * GM_CONTROL_BYTES_MAX;
	struct raw c;

	while (open_known(h, &c)) {
		uint64_t most = hostile_below(h, 4) ? 256 : sizeof(bytes);

		setsockopt(c.socket, SOL_SOCKET, SO_SNDBUFFORCE, &room,
			   sizeof(room));
		for (int i = 0; i < 16 && !raw_is_over(&c); i++) {
			size_t n = hostile_below(h, most);
			struct gm_control header =
				raw_header(&c, any_type(h), 0, 0);

			for (size_t at = 0; at + 8 <= n && at < 256; at += 8) {
				uint64_t word = hostile_random(h);

				memcpy(bytes + at, &word, 8);
			}
			/* Half of the records have a header that lets the agent
			 * read the rest. */
			header.bytes = (uint32_t)n;
			header.body = (uint32_t)hostile_below(h, n + 1);
			if (n >= sizeof(header) && hostile_below(h, 2))
				memcpy(bytes, &header, sizeof(header));
			if (send(c.socket, bytes, n,
				 MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
				break;
		}
		raw_close(&c);
		hostile_round(h);
	}
	raw_close(&c);
}

/* Send every request with every byte of its body at random. */
static void any_bodies(struct hostile *h)
{
	struct raw c;
	uint64_t body[16];

	while (open_known(h, &c)) {
		while (hostile_goes_on(h) && !raw_is_over(&c)) {
			uint16_t type = any_type(h);
			uint32_t bytes = (uint32_t)hostile_below(h, 129);
			int status;

			for (int i = 0; i < 16; i++)
				body[i] = hostile_below(h, 3)
						  ? hostile_random(h) >>
							    hostile_below(h, 64)
						  : 0;
			status = raw_ask(&c, type, body, bytes, NULL, 0, NULL);
			if (status == -ETIME || status == -EBADMSG)
				hostile_lapse(h, "request %u was answered %d",
					      type, status);
			hostile_round(h);
		}
		if (raw_is_over(&c))
			h->score->ended++;
		raw_close(&c);
	}
	raw_close(&c);
}

/* ---- too many, silent, or not reading ---------------------------------- */

static void connects(struct hostile *h)
{
	struct raw c;

	while (hostile_goes_on(h)) {
		raw_connect(&c, h->path);
		raw_close(&c);
		hostile_round(h);
	}
}

/* Hold as many connections as the agent accepts, and send nothing. */
static void silence(struct hostile *h)
{
	enum { MANY = 600 };
	static struct raw c[MANY];
	int n = 0;

	while (n < MANY && hostile_goes_on(h)) {
		if (raw_connect(&c[n], h->path) == 0)
			n++;
		else
			raw_nap(100000);
		hostile_round(h);
	}
	while (hostile_goes_on(h))
		raw_nap(1000000);
	for (int i = 0; i < n; i++) {
		if (raw_is_over(&c[i]))
			h->score->ended++;
		raw_close(&c[i]);
	}
}

/* Send requests without end, and read no answer. */
static void muted(struct hostile *h)
{
	struct raw c;

	while (open_known(h, &c)) {
		struct gm_list_ask after = { 0 };
		struct raw_record record = {
			.header = raw_header(&c, GM_CONTROL_LIST, sizeof(after),
					     0),
			.body = &after,
			.body_bytes = sizeof(after),
		};
		static const int little = 1;

		setsockopt(c.socket, SOL_SOCKET, SO_RCVBUF, &little,
			   sizeof(little));
		while (hostile_goes_on(h) && raw_send(&c, &record, 0) == 0)
			hostile_round(h);
		if (hostile_goes_on(h))
			h->score->ended++;
		raw_close(&c);
	}
	raw_close(&c);
}

/* Publish maps as large and as many as there may be, pin them, and release
 * them. */
static void publications(struct hostile *h)
{
	struct raw c;
	char name[32];

	while (open_known(h, &c)) {
		for (int i = 0; i < 64 && hostile_goes_on(h); i++) {
			struct gm_object_name object = {
				.kind = GM_KIND_LAYERS
			};
			uint16_t type = hostile_below(h, 2)
						? GM_CONTROL_PIN
						: GM_CONTROL_RELEASE;

			snprintf(name, sizeof(name), "hostile-%d",
				 (int)hostile_below(h, 300));
			raw_publish(&c, name, 0,
				    1 + (uint32_t)hostile_below(h, 4000));
			memcpy(object.name, name, sizeof(name));
			raw_ask(&c, type, &object, sizeof(object), NULL, 0,
				NULL);
			hostile_round(h);
		}
		raw_close(&c);
	}
	raw_close(&c);
	/* The maps belong to the uid and outlive the attack, so release
	 * them. */
	if (raw_open(&c, h->path) != 0)
		return;
	for (int i = 0; i < 300; i++) {
		struct gm_object_name object = { .kind = GM_KIND_LAYERS };

		snprintf(object.name, sizeof(object.name), "hostile-%d", i);
		raw_ask(&c, GM_CONTROL_RELEASE, &object, sizeof(object), NULL,
			0, NULL);
	}
	raw_close(&c);
}

const struct hostile_attack hostile_records[] = {
	{ "descriptor floods", descriptor_floods, 1 },
	{ "bad records", bad_records, 1 },
	{ "noise", noise, 1 },
	{ "any bodies", any_bodies, 1 },
	{ "connects", connects, 1 },
	{ "silence", silence, 1 },
	{ "muted", muted, 1 },
	{ "publications", publications, 1 },
	{ NULL, NULL, 0 },
};
