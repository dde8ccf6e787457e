/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* lingering - a descriptor whose last close takes as long as a test likes. */
#ifndef GM_TEST_SUPPORT_SLOW_CLOSE_H
#define GM_TEST_SUPPORT_SLOW_CLOSE_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket whose last close takes a minute, because no process reads the data
 * that it has sent.  Returns it, and the other end; -1 where there is no
 * loopback.  A close of the other end, with data left to read there, resets
 * it. */
int lingering(int *ret_other);

#endif
