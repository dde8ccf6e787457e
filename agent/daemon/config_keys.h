/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * config_keys - every key of gpumapd.conf: what it means, and what is right.
 */
#ifndef GM_CONFIG_KEYS_H
#define GM_CONFIG_KEYS_H

#include <stddef.h>

#include "agent/daemon/config.h"

#define GM_CONFIG_RIGHT_BYTES 128
#define GM_LOAD_RETRY_MAX_NS  UINT64_C(600000000000)

enum gm_config_form {
	GM_CONFIG_COUNT, /* a number, uint32_t */
	GM_CONFIG_SIZE,  /* bytes, with K M G T, uint64_t */
	GM_CONFIG_TIME,  /* with ms or s, uint64_t of ns */
	GM_CONFIG_SWITCH,
	GM_CONFIG_NODE,
	GM_CONFIG_MODE,
	GM_CONFIG_GROUP,
	GM_CONFIG_USER,
	GM_CONFIG_CPUS,
	GM_CONFIG_PATH, /* absolute, char * to free() */
	GM_CONFIG_SPIN,
	GM_CONFIG_WORD, /* one of key->words, uint32_t: which, from 0 */
	GM_CONFIG_NAMES /* of variables, blanks between, char * to free() */
};

struct gm_config_key {
	const char *section; /* keys of a section stand together */
	const char *name;
	enum gm_config_form form;
	size_t at; /* in struct gm_config */
	uint64_t least;
	uint64_t most;
	const char *const *words; /* of a WORD, to a NULL */
};

const struct gm_config_key *gm_config_keys(size_t *ret_n);

/*
 * gm_config_set - give a key its value
 *
 * ret_right	on failure: what would be right
 *
 * Returns	0, -EINVAL
 */
int gm_config_set(struct gm_config *config, const struct gm_config_key *key,
		  const char *value, char ret_right[GM_CONFIG_RIGHT_BYTES]);

/* The keys of [model NAME], for people. */
extern const char gm_config_model_keys[];

/* Give a key of [model NAME] its value.  Returns as gm_config_set(), and
 * -ENOENT: there is no such key. */
int gm_config_set_model(struct gm_config_model *model, const char *name,
			const char *value,
			char ret_right[GM_CONFIG_RIGHT_BYTES]);

/* Digits and nothing else, from @least to @most.  Returns 0, -EINVAL. */
int gm_config_parse_number(const char *text, uint64_t least, uint64_t most,
			   uint64_t *ret_value);

#endif
