/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * client - all that a client in a container may want of an agent, each with
 * its result.
 */
#ifndef GM_TEST_CONTAINERS_CLIENT_H
#define GM_TEST_CONTAINERS_CLIENT_H

#include "gpumap.h"
#include "tests/support/agent.h"
#include "tests/system/containers/container.h"

/* The columns of the table in gpumapd(8), CONTAINERS. */
enum client_act {
	CLIENT_ATTACH, /* also: the agent lives, and a change is waited for */
	CLIENT_READ,   /* devices, a layer map, and a mask's bytes */
	CLIENT_PLAN,   /* a reservation that stays */
	CLIENT_HOLD,   /* a reservation that ends with the process */
	CLIENT_SCATTER,
	CLIENT_SHARE, /* open one, and read it by a job and by its descriptor */
	CLIENT_PIN,
	CLIENT_FIGURES, /* what the holder has counts as the reservation's */
	CLIENT_WHO,     /* gpumapctl who */
	CLIENT_ACTS
};

extern const char *const client_names[CLIENT_ACTS];

/* A bit for each act. */
#define CLIENT_BIT(act) (1u << (act))

/* A uid and a group that no user has; the group may connect. */
#define CLIENT_USER 61357u
#define CLIENT_CONFIG     \
	"[socket]\n"      \
	"group = 61357\n" \
	"[host]\n"        \
	"rows = 2\n"      \
	"[cuda]\n"        \
	"enabled = off\n" \
	"share = any\n"

/* The agent, and its test's own attachment. */
struct client_node {
	struct agent agent;
	struct gpumap *map;
	struct gpumap_session *session;
};

/* Publish what clients look for.  Returns false where a check has failed. */
bool client_prepare(struct client_node *node);

/* Give it back, and end the agent. */
void client_finish(struct client_node *node);

/* Acts that fail in a container, and how. */
struct client_refusal {
	unsigned int acts; /* CLIENT_BIT() */
	int error;
	const char *says; /* words of the refusal */
};

/*
 * client_check - play a client in this container
 *
 * but		what is refused; NULL: nothing
 *
 * Checks each act's result.
 */
void client_check(struct client_node *node, const struct container *c,
		  const struct client_refusal *but);

#endif
