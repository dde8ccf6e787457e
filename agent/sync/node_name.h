/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* node_name - the names and addresses of nodes: words of keys and of commands,
 * which no program takes for an option. */
#ifndef GM_NODE_NAME_H
#define GM_NODE_NAME_H

#include <stdbool.h>

/* Is it a name of a node, or of a cluster?  1 to 63 of A-Z a-z 0-9 . _ -, of
 * which the first is a letter, a digit or '_'. */
bool gm_node_name_check(const char *name);

/* Is it an IP address or the name of a host?  1 to 63 of A-Z a-z 0-9 . _ - : %,
 * of which the first is no '-'. */
bool gm_node_name_check_address(const char *address);

#endif
