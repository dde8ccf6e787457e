/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Names and addresses of nodes. */

#include "agent/sync/node_name.h"

#include "tests/support/tap.h"

#define SIXTY_THREE \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

TAP_CASE()
{
	OK(gm_node_name_check("a"));
	OK(gm_node_name_check("gpu-01.example"));
	OK(gm_node_name_check("_a"));
	OK(gm_node_name_check(SIXTY_THREE));
	OK(!gm_node_name_check(SIXTY_THREE "x"));
	OK(!gm_node_name_check(""));
	OK(!gm_node_name_check(".a"));
	OK(!gm_node_name_check("-a"));
	OK(!gm_node_name_check("a/b"));
	OK(!gm_node_name_check("a b"));
	OK(!gm_node_name_check("a\n"));
	OK(!gm_node_name_check("\xc3\xa9"));

	OK(gm_node_name_check_address("10.0.0.1"));
	OK(gm_node_name_check_address("::1"));
	OK(gm_node_name_check_address("fe80::1%eth0"));
	OK(gm_node_name_check_address("gpu-01.example"));
	OK(gm_node_name_check_address(SIXTY_THREE));
	OK(!gm_node_name_check_address(SIXTY_THREE "x"));
	OK(!gm_node_name_check_address(""));
	OK(!gm_node_name_check_address("-oProxyCommand"));
	OK(!gm_node_name_check_address("a;b"));
	OK(!gm_node_name_check_address("a b"));
	OK(!gm_node_name_check_address("$(a)"));
	return tap_done();
}
