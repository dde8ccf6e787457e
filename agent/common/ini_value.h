/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ini_value - a key of a configuration file: what it means, and what is right.
 */
#ifndef GM_COMMON_INI_VALUE_H
#define GM_COMMON_INI_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GM_INI_RIGHT_BYTES 128

enum gm_ini_form {
	GM_INI_COUNT, /* a number, uint32_t */
	GM_INI_SIZE,  /* bytes, with K M G T, uint64_t */
	GM_INI_TIME,  /* with ms or s, uint64_t of ns */
	GM_INI_SWITCH,
	GM_INI_MODE,
	GM_INI_GROUP,
	GM_INI_PATH, /* absolute, char * to free() */
	GM_INI_WORD, /* one of key->words, uint32_t: which, from 0 */
	GM_INI_OWN   /* key->set knows */
};

struct gm_ini_key {
	const char *section; /* keys of a section stand together */
	const char *name;
	enum gm_ini_form form;
	size_t at; /* in the program's struct */
	uint64_t least;
	uint64_t most;
	const char *const *words; /* of a WORD, to a NULL */
	/* of an OWN.  Returns 0 or -EINVAL. */
	int (*set)(void *config, const struct gm_ini_key *key,
		   const char *value, char ret_right[GM_INI_RIGHT_BYTES]);
};

/*
 * gm_ini_value_set - give a key its value
 *
 * config	the program's struct
 * ret_right	on failure: what would be right
 *
 * Returns	0, -EINVAL
 */
int gm_ini_value_set(void *config, const struct gm_ini_key *key,
		     const char *value, char ret_right[GM_INI_RIGHT_BYTES]);

/* Copy a text that @is_right, in place of *@to.  Returns 0, -EINVAL. */
int gm_ini_value_text(char **to, const char *value, bool is_right,
		      const char *right, char ret_right[GM_INI_RIGHT_BYTES]);

/* An absolute path: a daemon's working directory is not known to its
 * administrator.  Returns 0, -EINVAL. */
int gm_ini_value_path(char **to, const char *value,
		      char ret_right[GM_INI_RIGHT_BYTES]);

/* A number of a key.  Returns 0, -EINVAL. */
int gm_ini_value_count(uint32_t *to, const struct gm_ini_key *key,
		       const char *value, char ret_right[GM_INI_RIGHT_BYTES]);

/* Digits and nothing else, from @least to @most.  Returns 0, -EINVAL. */
int gm_ini_value_number(const char *text, uint64_t least, uint64_t most,
			uint64_t *ret_value);

#endif
