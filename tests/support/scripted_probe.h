/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * scripted_probe - a probe whose every word is the test's.
 *
 * A test listens, starts its agent with scripted_probe for a probe, and
 * accepts: each start of a census or a watcher is a connection, and what is
 * said over it gpumapd takes for the probe's.  There is one NVML index, whose
 * watcher speaks of all cards.  A card of these stories is made of its number:
 * its UUID, its name and its bus all tell it.
 */
#ifndef GM_TEST_SUPPORT_SCRIPTED_PROBE_H
#define GM_TEST_SUPPORT_SCRIPTED_PROBE_H

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/common/probe_wire.h"
#include "agent/cuda/nvml.h"
#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/support/story.h"
#include "tests/support/tap.h"

#define PUPPET_WAIT_MS 30000 /* against hanging */
#define PUPPET_TOTAL   (UINT64_C(80) << 30)

static int puppet_listener = -1;
static char puppet_path[80];  /* of the socket */
static char puppet_named[96]; /* GPUMAP_PUPPET=... */
static char puppet_program[512];

static inline void puppet_clear(void)
{
	unlink(puppet_path);
}

/* To be called once, before the first agent. */
static inline bool puppet_set(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const char *build = getenv("abs_top_builddir");

	snprintf(puppet_program, sizeof(puppet_program),
		 "%s/tests/support/scripted_probe",
		 build != NULL ? build : ".");
	snprintf(puppet_path, sizeof(puppet_path), "/tmp/gpumap-puppet.%d",
		 (int)getpid());
	snprintf(puppet_named, sizeof(puppet_named), "GPUMAP_PUPPET=%s",
		 puppet_path);
	strcpy(at.sun_path, puppet_path);
	puppet_listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	atexit(puppet_clear);
	return bind(puppet_listener, (struct sockaddr *)&at, sizeof(at)) == 0 &&
	       listen(puppet_listener, 8) == 0;
}

/* Have this agent's probes be puppets, from its next start on. */
static inline void puppet_for(struct agent *a)
{
	a->probe = puppet_program;
	a->env[0] = puppet_named;
	a->env[1] = NULL;
}

static inline void puppet_send(int fd, const struct gm_probe_wire *wire)
{
	if (send(fd, wire, sizeof(*wire), MSG_NOSIGNAL) != sizeof(*wire))
		OK(!"the probe has ended");
}

/* The next census or watcher that is started, and its role; -1 when none
 * comes. */
static inline int puppet_meet(uint32_t *ret_role)
{
	struct pollfd p = { puppet_listener, POLLIN, 0 };
	struct gm_probe_wire hello;
	int fd;

	if (poll(&p, 1, PUPPET_WAIT_MS) != 1)
		return -1;
	fd = accept4(puppet_listener, NULL, NULL, SOCK_CLOEXEC);
	if (fd < 0 || recv(fd, &hello, sizeof(hello), 0) != sizeof(hello))
		return -1;
	*ret_role = hello.type;
	return fd;
}

/* The answer to a census: health USABLE for one card, and else why there is
 * none. */
static inline void puppet_count(int fd, uint32_t health, const char *text)
{
	struct gm_probe_wire wire = { .type = GM_PROBE_CENSUS,
				      .health = health,
				      .n_cards = health == GM_PROBE_USABLE };

	snprintf(wire.text, sizeof(wire.text), "%s", text);
	puppet_send(fd, &wire);
	close(fd);
}

/* Answer the next census so. */
static inline void puppet_census(uint32_t health, const char *text)
{
	uint32_t role = 0;
	int fd = puppet_meet(&role);

	if (OK(fd >= 0) && EQ(role, GM_ROLE_CENSUS))
		puppet_count(fd, health, text);
}

/* The next watcher, behind a census that finds it; -1 when none comes. */
static inline int puppet_accept(void)
{
	uint32_t role = 0;
	int fd = puppet_meet(&role);

	if (fd >= 0 && role == GM_ROLE_CENSUS) {
		puppet_count(fd, GM_PROBE_USABLE, "");
		fd = puppet_meet(&role);
	}
	return fd;
}

/* Has the watcher been ended? */
static inline bool puppet_ended(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	char byte;
	bool is =
		poll(&p, 1, PUPPET_WAIT_MS) == 1 && recv(fd, &byte, 1, 0) <= 0;

	close(fd);
	return is;
}

static inline void puppet_uuid(uint32_t card, uint8_t ret_uuid[16])
{
	memset(ret_uuid, 0xc0, 16);
	ret_uuid[6] = 0x40;
	ret_uuid[15] = (uint8_t)card;
}

static inline struct gm_probe_wire puppet_word(uint32_t type, uint32_t card)
{
	struct gm_probe_wire wire = { .type = type };

	puppet_uuid(card, wire.uuid);
	return wire;
}

/* Card 3 is on bus 3, and so on. */
static inline struct gm_probe_wire puppet_card(uint32_t card)
{
	struct gm_probe_wire wire = puppet_word(GM_PROBE_DEVICE, card);
	struct gm_row_image *facts = &wire.device.facts;

	facts->kind = GPUMAP_DEVICE_CUDA;
	facts->known = GPUMAP_KNOWN_PCI | GPUMAP_KNOWN_MEMORY |
		       GPUMAP_KNOWN_UNITS | GPUMAP_KNOWN_CC | GPUMAP_KNOWN_NVML;
	facts->pci_bus = card << 8;
	facts->nvml_index = facts->minor_number = (int32_t)card;
	facts->ordinal_pci = facts->ordinal_fastest = -1;
	facts->mig_gi = facts->mig_ci = -1;
	facts->numa_node = -1;
	facts->cc_major = 9;
	facts->units = 132;
	facts->total_bytes = PUPPET_TOTAL;
	snprintf(wire.device.name, sizeof(wire.device.name), "Puppet %u", card);
	snprintf(wire.device.id, sizeof(wire.device.id),
		 "GPU-c0c0c0c0-c0c0-40c0-c0c0-c0c0c0c0c0%02x", card);
	return wire;
}

/* An instance, with a number of its own, of a card. */
static inline struct gm_probe_wire puppet_part(uint32_t part, uint32_t card)
{
	struct gm_probe_wire wire = puppet_card(part);

	wire.device.facts.known &= ~GPUMAP_KNOWN_PCI;
	wire.device.facts.known |= GPUMAP_KNOWN_MIG;
	wire.device.facts.mig_gi = (int32_t)part;
	wire.device.facts.mig_ci = 0;
	puppet_uuid(card, wire.device.parent);
	memcpy(wire.device.id, "MIG", 3);
	return wire;
}

/* The id of a part with another uuid. */
static inline void puppet_name(struct gm_probe_wire *wire)
{
	const uint8_t *u = wire->uuid;

	snprintf(wire->device.id, sizeof(wire->device.id),
		 "MIG-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		 "%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9],
		 u[10], u[11], u[12], u[13], u[14], u[15]);
}

static inline struct gm_probe_wire puppet_gone(const struct gm_probe_wire *part)
{
	struct gm_probe_wire wire = { .type = GM_PROBE_GONE,
				      .text = "destroyed" };

	memcpy(wire.uuid, part->uuid, sizeof(wire.uuid));
	return wire;
}

static inline struct gm_probe_wire puppet_moving(uint32_t card, uint32_t health,
						 const char *text)
{
	struct gm_probe_wire wire = puppet_word(GM_PROBE_MOVING, card);

	wire.health = health;
	wire.moving.recovery = GM_NVML_RECOVERY_NONE;
	wire.moving.known = GPUMAP_KNOWN_MEMORY | GPUMAP_KNOWN_TEMPERATURE;
	wire.moving.free_bytes = PUPPET_TOTAL - (UINT64_C(1) << 30);
	wire.moving.temperature = 41000;
	snprintf(wire.text, sizeof(wire.text), "%s", text);
	return wire;
}

/* A look at a device, with the health of its record. */
static inline void puppet_look(int fd, const struct gm_probe_wire *device)
{
	struct gm_probe_wire look =
		puppet_moving(0, device->health, device->text);

	memcpy(look.uuid, device->uuid, sizeof(look.uuid));
	puppet_send(fd, &look);
}

/* A DEVICE is followed by a look at it. */
static inline void puppet_say(int fd, const struct gm_probe_wire *wire)
{
	puppet_send(fd, wire);
	if (wire->type == GM_PROBE_DEVICE)
		puppet_look(fd, wire);
}

/* All devices before the first look: they are listed together. */
static inline void puppet_say_all(int fd, const struct gm_probe_wire *wires,
				  size_t n)
{
	for (size_t i = 0; i < n; i++)
		puppet_send(fd, &wires[i]);
	for (size_t i = 0; i < n; i++)
		puppet_look(fd, &wires[i]);
}

static inline void puppet_say_moving(int fd, uint32_t card, uint32_t health,
				     const char *text)
{
	struct gm_probe_wire wire = puppet_moving(card, health, text);

	puppet_say(fd, &wire);
}

static inline void puppet_say_xid(int fd, uint32_t card, uint64_t xid)
{
	struct gm_probe_wire wire = puppet_word(GM_PROBE_EVENT, card);

	wire.event.kind = GM_NVML_EVENT_XID;
	wire.event.xid = xid;
	puppet_say(fd, &wire);
}

/* The row of a card, -1 when it has none. */
static inline int puppet_row(const struct gpumap *map, uint32_t card)
{
	uint8_t uuid[16];

	puppet_uuid(card, uuid);
	return gpumap_device_find(map, uuid);
}

/* Wait until a card's row has this state. */
static inline bool puppet_becomes(const struct gpumap *map, uint32_t card,
				  uint32_t state)
{
	uint64_t until = story_now() + STORY_LIMIT_NS;

	while (story_now() < until) {
		int row = puppet_row(map, card);

		if (row >= 0 && story_device(map, (uint32_t)row).state == state)
			return true;
		story_nap(500);
	}
	return false;
}

#endif
