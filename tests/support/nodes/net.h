/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * net - network namespaces that a bridge joins, and that can be cut off.
 *
 * The test itself moves to a namespace with the bridge, where it has the
 * address NET_HOME.  All of this ends with the test.
 */
#ifndef GM_TEST_SUPPORT_NET_H
#define GM_TEST_SUPPORT_NET_H

#include <stdbool.h>

#define NET_HOME "10.231.0.1"

struct net_place {
	int ns; /* descriptor of its namespace */
	int number;
	char address[24];
};

/* Make @n places.  Returns NULL, or the reason why this machine cannot. */
const char *net_make(struct net_place *ret_places, int n);

/* Move the calling process there: for a child, before it starts a program. */
void net_enter(const struct net_place *place);

/* Take the cable out: packets vanish, and no end is told. */
void net_cut(const struct net_place *place);
void net_heal(const struct net_place *place);

#endif
