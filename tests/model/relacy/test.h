/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * test.h - what the Relacy programs share: one test, many executions.
 *
 *	PROGRAM TEST EXECUTIONS [FUNCTION MACRO]
 *
 * Runs TEST in that many random executions, with the order that FUNCTION asks
 * for through MACRO weakened.  Exits with 0 when all were right, 1 when one was
 * not, which is printed, and 2 when nothing was tested.
 */
#ifndef GM_RELACY_TEST_H
#define GM_RELACY_TEST_H

#include <iostream>
#include <string>

#include "shm/atomic.h"

const char *gm_weaken;
bool gm_weakened;
void (*gm_before_acquire)(const char *function);

struct gm_test {
	const char *name;
	bool (*simulate)(rl::test_params &);
};

static int gm_run(const struct gm_test *tests, int argc, char **argv)
{
	std::string weaken;
	rl::test_params params;

	if (argc != 3 && argc != 5)
		return 2;
	if (argc == 5) {
		weaken = std::string(argv[3]) + " " + argv[4];
		gm_weaken = weaken.c_str();
	}
	params.iteration_count = atol(argv[2]);
	params.search_type = rl::random_scheduler_type;
	params.progress_output_period = 3600;
	for (; tests->name; tests++) {
		if (strcmp(tests->name, argv[1]) != 0)
			continue;
		if (!tests->simulate(params))
			return 1;
		return gm_weaken && !gm_weakened ? 2 : 0;
	}
	return 2;
}

#endif
