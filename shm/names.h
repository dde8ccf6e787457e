/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * names.h - the names of an instance's files in /dev/shm.
 *
 *	/dev/shm/gpumap.<M>.uid<U>/		of the agents of user U
 *	/dev/shm/gpumap.<M>.uid<U>/<instance>/	of one instance
 *		map				the map segment
 *		node<N>				a node segment
 *
 * M is GM_LAYOUT_MAJOR, so agents of two majors have no file in common.
 *
 * User U owns both folders, and no other user may write or list them.  So no
 * other user can take a name before the agent does, or put a file there for a
 * client to find.  Nor can it hold their locks while it lists them, which would
 * keep the agent from adding or removing a name.  Agents of different users
 * have different folders, and the files of one instance cannot have the name of
 * another's.
 *
 * A client looks in the folder of a user that it trusts, and believes the file
 * if the folder and the file are that user's.
 */
#ifndef GM_NAMES_H
#define GM_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "shm/layout.h"

#define GM_NAMES_SHM      "/dev/shm"
#define GM_NAMES_USER     GM_NAMES_SHM "/gpumap.4.uid" /* M is 4 */
#define GM_NAMES_BYTES    128u /* of a path, with its NUL */
#define GM_NAMES_INSTANCE 63u  /* bytes of an instance's name */
#define GM_NAMES_MODE     0711 /* of both folders */

_Static_assert(GM_LAYOUT_MAJOR == 4, "GM_NAMES_USER has another M");

/* Can an instance have this name?  A name is one folder's: neither empty nor
 * longer than GM_NAMES_INSTANCE, without a '/', neither "." nor "..". */
static inline bool gm_names_check_instance(const char *instance)
{
	size_t n = strlen(instance);

	return n > 0 && n <= GM_NAMES_INSTANCE &&
	       strchr(instance, '/') == NULL && strcmp(instance, ".") != 0 &&
	       strcmp(instance, "..") != 0;
}

/* The folder of a user's instances. */
static inline void gm_names_user(char ret_path[GM_NAMES_BYTES], uint32_t uid)
{
	snprintf(ret_path, GM_NAMES_BYTES, GM_NAMES_USER "%u", uid);
}

/* A file of an instance whose name has been checked, of up to 30 bytes; or for
 * "" the instance's folder. */
static inline void gm_names_file(char ret_path[GM_NAMES_BYTES], uint32_t uid,
				 const char *instance, const char *file)
{
	snprintf(ret_path, GM_NAMES_BYTES, GM_NAMES_USER "%u/%s%s%s", uid,
		 instance, file[0] != '\0' ? "/" : "", file);
}

/* The name of the node segment of a NUMA node. */
static inline void gm_names_node(char ret_file[16], uint32_t node)
{
	snprintf(ret_file, 16, "node%u", node);
}

#endif
