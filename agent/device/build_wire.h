/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * build_wire - what a driver and gpumap-build say to each other.
 *
 * A vendor's compiler reads texts of strangers, starts programs, and may hang
 * or crash, none of which a worker may do.  So a driver starts gpumap-build
 * with a socket as descriptor 3.  Each request is a struct gm_build_ask, with
 * the descriptors of two memory files: the text, and an empty one for what is
 * made.  A process of its own answers each, within GM_BUILD_LIMIT_S of a CPU's
 * time: it writes a struct gm_build_answer to the second file and, where its
 * status is 0, the program's binary.  Then gpumap-build sends a struct
 * gm_build_answer, whose status is 0 where that process has ended well.
 */
#ifndef GM_BUILD_WIRE_H
#define GM_BUILD_WIRE_H

#include <stdint.h>

#include "agent/common/wire.h"

#define GM_BUILD_FD      3
#define GM_BUILD_MAX     (UINT64_C(256) << 20) /* bytes of either file */
#define GM_BUILD_LOG     1024u
#define GM_BUILD_OPTIONS 256u
#define GM_BUILD_NAME    256u

struct gm_build_ask {
	char options[GM_BUILD_OPTIONS];
	char kernel[GM_BUILD_NAME]; /* that a client asks for; "": ours */
};

struct gm_build_answer {
	int32_t status; /* 0, -errno */
	char why[GM_BUILD_LOG];
};

#endif
