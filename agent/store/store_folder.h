/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store_folder - names in a directory that nodes share, and their changes.
 *
 *	+KEY/t<ID>	the key has the value ID; '+' stands for '/' in KEY
 *	=<ID>		the value: a line about it, and its bytes
 *	@<ID>		a lease: its owner writes another number each quarter
 *			of its time
 *	.tmp.<ID>	what is not ready
 *
 * ID has 16 digits, is random, and is never used again.
 *
 * A change is one rename(2), from t<OLD> to t<NEW> in +KEY, after the value of
 * NEW is on the disk.  If several processes rename the same OLD, the kernel or
 * the NFS server lets one; the others find no such file.  No OLD comes back, so
 * that nothing has to be known about the time between looking and renaming.  A
 * new key is a directory with t<NEW> in it, renamed to +KEY: that fails if +KEY
 * is a directory with a value, and succeeds if it is empty.  A deletion is
 * unlink(2) of t<OLD>.  rmdir(2) of +KEY tells whether there is no value, for a
 * listing may miss a name that is being renamed.  Other names are of other
 * programs, such as lost+found.
 *
 * Killed at any instant, a process leaves the old value or the new one, and
 * perhaps a file that no key names, which gm_store_folder_sweep() removes after
 * an hour.  Nothing waits for the killed process: there is no lock.
 *
 * Files are believed that belong to this user, to root, or to the owner of the
 * directory, and that no other user may write.  Names are not followed where
 * they are links; nothing but regular files of bounded size is read.
 *
 * Over NFS renames of version 4.1 and later are carried out once.  Mount with
 * "actimeo=1,lookupcache=none", so that clients see each other's changes.
 */
#ifndef GM_STORE_FOLDER_H
#define GM_STORE_FOLDER_H

#include <sys/stat.h>

#include "agent/store/store_backend.h"

#define GM_STORE_ID_BYTES   18u /* of a mark and an ID, with the NUL */
#define GM_STORE_BEAT_BYTES 64u /* of a lease's file, at most */
#define GM_STORE_NAME_BYTES (GM_STORE_KEY_BYTES + 1)
#define GM_STORE_NAMES_MOST 65536u /* names in a directory that are looked at */

/* The first line of a value. */
struct gm_store_value_head {
	uint64_t lease; /* 0: none */
	uint32_t ttl_ms;
	uint32_t bytes;
};

struct gm_store_folder {
	struct gm_store *store; /* gets the reasons of failures */
	const char *path;
	int fd; /* -1: not open */
	uid_t owner;
};

/* Open the directory, if it may be believed. */
int gm_store_folder_open(struct gm_store_folder *folder);
void gm_store_folder_close(struct gm_store_folder *folder);

/* The name of a key's directory, and the key of such a name: false for none. */
void gm_store_folder_name(const char *key, char ret_name[GM_STORE_NAME_BYTES]);
bool gm_store_folder_key(const char *name, char ret_key[GM_STORE_KEY_BYTES]);

/* "<MARK><ID>", and its ID: 0 for none. */
void gm_store_folder_id(char mark, uint64_t id,
			char ret_name[GM_STORE_ID_BYTES]);
uint64_t gm_store_folder_read_id(char mark, const char *name);

/*
 * gm_store_folder_look - the revision that a key has
 *
 * ret_fd	the key's directory, -1 where there is none
 *
 * Returns	0, with @ret_revision 0 for no value, or -errno
 */
int gm_store_folder_look(struct gm_store_folder *folder, const char *key,
			 int *ret_fd, uint64_t *ret_revision);

/*
 * gm_store_folder_value - read a value, or its first line for NULL @ret_value
 *
 * Returns	0, -ENOENT: it is not there any more, -EBADMSG: it is none that
 *		this program would write, or -errno
 */
int gm_store_folder_value(struct gm_store_folder *folder, uint64_t revision,
			  struct gm_store_value_head *ret_head,
			  char ret_value[GM_STORE_VALUE_BYTES]);

/*
 * gm_store_folder_write - put a value, or delete the key
 *
 * lease	its ID, 0 for none, with @write->lease's time
 * is_cas	only if the key has the revision @write->expected
 * ret_revision	that the key has now
 *
 * Returns	0, -ESTALE, or -errno
 */
int gm_store_folder_write(struct gm_store_folder *folder,
			  const struct gm_store_write *write, uint64_t lease,
			  bool is_cas, uint64_t *ret_revision);

/* Delete a key if it has this revision. */
int gm_store_folder_delete(struct gm_store_folder *folder, const char *key,
			   uint64_t revision);

/* Make a lease's file, or write another number into one; read it: "" for none
 * that may be believed.  A lease that others have ended is -ENOENT. */
int gm_store_folder_beat(struct gm_store_folder *folder, uint64_t lease,
			 uint64_t number, bool is_new);
void gm_store_folder_read_beat(struct gm_store_folder *folder, uint64_t lease,
			       char ret_beat[GM_STORE_BEAT_BYTES]);

/* Remove what is older than an hour, by the clock of the directory's server,
 * and is no value for which @is_named() says true. */
void gm_store_folder_sweep(struct gm_store_folder *folder,
			   bool (*is_named)(void *data, uint64_t revision),
			   void *data);

#endif
