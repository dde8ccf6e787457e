/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * read_file - read small text files of /sys and /proc.
 *
 * @root is put before the path, for tests with a machine of their own; NULL
 * is the machine that we run on.
 */
#ifndef GM_COMMON_READ_FILE_H
#define GM_COMMON_READ_FILE_H

#include <stddef.h>

#include "agent/common/idset.h"

/* A list of every second CPU of GM_IDSET_MAX is 20 KiB. */
#define GM_SYSFILE_LIST_MAX (32u << 10)

/*
 * gm_read_file_path - the path of a file below @root, from a printf format
 *
 * Returns	0, or -ENAMETOOLONG
 */
int gm_read_file_path(char *ret_path, size_t bytes, const char *root,
		      const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * gm_read_file - the whole of a file as a string
 *
 * Returns	its length
 *		-EFBIG		it does not fit into @bytes with its end
 *		and what open and read return
 */
int gm_read_file(const char *path, char *ret_text, size_t bytes);

/* The same for a file that holds a list.  Returns as gm_idset_parse() too. */
int gm_read_file_list(const char *path, struct gm_idset *ret_set);

#endif
