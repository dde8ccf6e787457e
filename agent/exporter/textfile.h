/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* textfile - write the metrics to a file that node_exporter reads. */
#ifndef GM_TEXTFILE_H
#define GM_TEXTFILE_H

#include "agent/exporter/metrics.h"

/* Put the metrics in the place of the file @path, which is never seen half
 * written.  Returns false after printing why. */
bool gm_textfile_write(struct gm_target *target, bool usage, const char *path);

#endif
