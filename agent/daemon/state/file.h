/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * file - one state file: words of one kind, and the devices that they name.
 *
 * In memory a file is what it is on the disk.  A number of a row in its words
 * is a place among its UUIDs, because each segment gives out numbers of rows
 * anew.  An object's words are those of its block, and begin with its struct
 * gm_object_image; a kind without objects has one file, with words of its own.
 *
 * No byte of a file is believed before all of it has been validated: that it is
 * of the kind and the layout that were asked for, whole, and its words by the
 * kind's validate().
 */
#ifndef GM_DAEMON_STATE_FILE_H
#define GM_DAEMON_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/common/refusal.h"
#include "agent/daemon/state/dir.h"
#include "shm/layout.h"

struct gm_daemon;
struct gm_state_kind;

struct gm_state_file {
	uint64_t magic;
	uint32_t kind;   /* enum gm_kind, or a number above: state/state.h */
	uint32_t layout; /* of the words: the kind's own number */
	uint64_t bytes;  /* of the whole file */
	uint64_t sum;    /* of all bytes but these 8, when it was written */
	uint32_t n_uuids;
	uint32_t unused;
	uint8_t uuids[][16]; /* each once; the words follow */
};

/* The words of a file, and how many bytes they are. */
static inline uint64_t *gm_state_file_words(const struct gm_state_file *file)
{
	return (uint64_t *)(uintptr_t)(file->uuids + file->n_uuids);
}

static inline uint64_t
gm_state_file_word_bytes(const struct gm_state_file *file)
{
	return file->bytes - sizeof(*file) -
	       file->n_uuids * sizeof(file->uuids[0]);
}

/* The object that a file of a kind with objects has. */
static inline const struct gm_object_image *
gm_state_file_object(const struct gm_state_file *file)
{
	return (const void *)gm_state_file_words(file);
}

/* The name of an object's file; of a kind without objects, @name is NULL. */
void gm_state_file_name(const struct gm_state_kind *kind, const char *name,
			char ret_file[GM_STATE_NAME_BYTES]);

/* The object of a kind that would have a file of this name.  Returns false
 * where none would. */
bool gm_state_file_owner(const struct gm_state_kind *kind, const char *file,
			 char ret_name[GM_NAME_BYTES]);

/* A file with room for so many UUIDs and bytes of words, all zero; NULL: no
 * memory.  To be freed. */
struct gm_state_file *gm_state_file_new(const struct gm_state_kind *kind,
					uint32_t n_uuids, uint64_t word_bytes);

/* The file of an object whose block these words are, with the UUIDs of the
 * devices that its rows have now; NULL: no memory.  To be freed. */
struct gm_state_file *gm_state_file_make(const struct gm_daemon *d,
					 const struct gm_state_kind *kind,
					 const uint64_t *words);

/*
 * gm_state_file_block - the words of an object's file, with numbers of rows
 *
 * ret_words	to be freed
 * ret_is_lost	a row is in the table, and its device is not there
 *
 * Returns	0
 *		-ENODEV		a device is not in the table
 *		-ENOMEM
 */
int gm_state_file_block(const struct gm_daemon *d,
			const struct gm_state_kind *kind,
			const struct gm_state_file *file, uint64_t **ret_words,
			bool *ret_is_lost);

/*
 * gm_state_file_check - validate the bytes of a file
 *
 * name		that they were found under
 *
 * Returns	0
 *		-EBADMSG	torn: it is not as long as it says, or its sum
 *				is wrong
 *		-EPROTO		foreign: no state file, of another kind, layout
 *				or name, or it makes no sense
 */
int gm_state_file_check(const struct gm_state_kind *kind, const char *name,
			const struct gm_state_file *file, size_t bytes,
			char ret_why[GM_WHY_BYTES]);

/*
 * gm_state_file_read - read a file and validate it
 *
 * ret_file	to be freed
 *
 * Returns	as gm_state_dir_read() and gm_state_file_check()
 */
int gm_state_file_read(const struct gm_state_dir *dir,
		       const struct gm_state_kind *kind, const char *name,
		       char ret_why[GM_WHY_BYTES],
		       struct gm_state_file **ret_file);

/* Give a file the sum of its bytes. */
void gm_state_file_seal(struct gm_state_file *file);

/*
 * gm_state_file_write - write a file under its name, on the I/O thread
 *
 * One of a kind without objects that says nothing is removed.
 *
 * Returns	as gm_state_dir_write() and gm_state_dir_remove()
 */
int gm_state_file_write(const struct gm_state_dir *dir,
			const struct gm_state_kind *kind,
			struct gm_state_file *file, char ret_why[GM_WHY_BYTES]);

#endif
