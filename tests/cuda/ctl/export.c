/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumapctl export on a machine with whole cards and MIG instances: a process
 * with the variables that it prints sees the map's devices in the map's order,
 * whatever gpumapctl's own environment is; and where the driver would show it
 * others, export says so instead.
 *
 * The driver answers, in a process of its own.
 */

#include <signal.h>

#include "tests/support/cuda_shown.h"

/* ---- maps ---------------------------------------------------------------- */

static const char *const orders[] = { NULL, "PCI_BUS_ID", "FASTEST_FIRST" };
static const char *const lists[] = { NULL, "", "0", "1,0", "-1", "GPU-" };

static void set_or_not(const char *name, const char *value)
{
	if (value != NULL)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* A map of two rows, or of one twice. */
static void publish(uint32_t a, uint32_t b)
{
	char spec[32];

	if (a == b)
		snprintf(spec, sizeof(spec), "%u:3", a);
	else
		snprintf(spec, sizeof(spec), "%u:1;%u:2", a, b);
	EQ(CTL("publish", "pair", "--spec", spec), DONE);
}

static bool is_part(uint32_t row)
{
	return devices[row].mig_gi >= 0;
}

/* Every pair of rows is seen as it is in the map. */
static void pairs_are_seen_in_order(bool sees_parts)
{
	char want[32];

	for (uint32_t i = 0; i < n_rows * n_rows; i++) {
		uint32_t a = rows[i / n_rows], b = rows[i % n_rows];
		bool can = sees_parts || a == b || (!is_part(a) && !is_part(b));

		publish(a, b);
		snprintf(want, sizeof(want), a == b ? "%u" : "%u %u", a, b);
		if (!EQ(CTL("export", "pair", "--for", "llama.cpp", "--format",
			    "env"),
			can ? DONE : FAILED))
			NOTE("rows %u, %u: %s", a, b, err);
		if (can)
			STR(shown(), want);
		else
			OK(complains("does not show beside the map's other "
				     "rows: publish the map without MIG"));
	}
}

/* gpumapctl's own environment changes nothing. */
static void any_environment_will_do(void)
{
	char first[sizeof(out)];

	publish(rows[n_rows - 1], rows[0]);
	EQ(CTL("export", "pair", "--for", "mistralrs", "--format", "env"),
	   DONE);
	snprintf(first, sizeof(first), "%s", out);
	OK(strstr(first, "MISTRALRS_NO_NCCL=1\n") != NULL);
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
		for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
			char want[32];

			set_or_not("CUDA_DEVICE_ORDER", orders[i]);
			set_or_not("CUDA_VISIBLE_DEVICES", lists[k]);
			EQ(CTL("export", "pair", "--for", "mistralrs",
			       "--format", "env"),
			   DONE);
			STR(out, first);
			snprintf(want, sizeof(want), "%u %u", rows[n_rows - 1],
				 rows[0]);
			STR(shown(), want);
		}
	unsetenv("CUDA_DEVICE_ORDER");
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void a_map_of_the_host_sees_no_card(void)
{
	uint32_t host = 0;

	while (devices[host].kind != GPUMAP_DEVICE_HOST)
		host++;
	publish(host, host);
	EQ(CTL("export", "pair", "--for", "env", "--format", "env"), DONE);
	STR(shown(), "");
}

/* @plan is of the driver. */
static void try_driver(const char *plan, bool sees_parts)
{
	if (!cuda_scene_make(&scene, "split.yaml", plan))
		return;
	agent.kept = NULL;
	cuda_scene_agent(&scene, &agent, "", "[host]\nrows = 1\n");
	if (OK(agent_start(&agent))) {
		list_rows();
		EQ(n_rows, 7); /* a card, and instances of two */
		pairs_are_seen_in_order(sees_parts);
		if (sees_parts)
			any_environment_will_do();
		a_map_of_the_host_sees_no_card();
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	agent_remove(&agent);
	cuda_scene_end(&scene);
}

TAP_CASE()
{
	unsetenv("CUDA_DEVICE_ORDER");
	unsetenv("CUDA_VISIBLE_DEVICES");
	try_driver(NULL, true);
	try_driver("driver 12.2", false);
	return tap_done();
}
