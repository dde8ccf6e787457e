/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * load_link - the path by which other programs open a file that was loaded.
 *
 * The path is that of a descriptor of this process, in /proc.  A link gives it
 * the file's own name in a directory, for programs that look at names.
 */
#ifndef GM_CTL_LOAD_LINK_H
#define GM_CTL_LOAD_LINK_H

#include <limits.h>

struct gm_load_link {
	int fd;              /* -1: none */
	char path[32];       /* in /proc; "": none */
	char link[PATH_MAX]; /* "": none */
};

/* Take the descriptor, and make a link to it as @name in @folder, which is made
 * if it is not there; @folder may be NULL.  Returns an exit status. */
int gm_load_link_make(struct gm_load_link *link, int fd, const char *folder,
		      const char *name);

/* Remove the link, if it is still this one, and close the descriptor. */
void gm_load_link_end(struct gm_load_link *link);

#endif
