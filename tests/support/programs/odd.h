/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#ifndef GM_TEST_SUPPORT_PROGRAMS_ODD_H
#define GM_TEST_SUPPORT_PROGRAMS_ODD_H

#include <gpumap/program.h>

enum odd {
	ODD_NOTHING,
	ODD_CRASHES,
	ODD_GOES_ON, /* and on; dst is 1 from then on */
	ODD_OPENS,   /* a file; its errno */
	ODD_CALLS,   /* what no worker calls */
	ODD_KILLS,   /* the agent */
	ODD_FAILS,   /* -EXDEV */
	ODD_SAYS_7,
	ODD_COUNTS,       /* its items, without a source */
	ODD_OPENED,       /* a file, while it was loaded; its errno */
	ODD_OPENS_ITSELF, /* by the path that it was loaded from; its errno */
	ODD_WAITS         /* as ODD_GOES_ON, until the test makes dst 2 */
};

#endif
