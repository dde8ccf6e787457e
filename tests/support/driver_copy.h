/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * driver_copy - the stand-in's libraries where every user can read them.
 *
 * Workers and the probe are another user than root, who may have no way into
 * the folder that the tests were built in.
 */
#ifndef GM_TEST_SUPPORT_DRIVER_COPY_H
#define GM_TEST_SUPPORT_DRIVER_COPY_H

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* Make @folder with them in it. */
bool driver_copy_make(const char *folder);
bool driver_copy_remove(const char *folder);

#endif
