/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * config_keys - every key of gpumapd.conf.
 */
#ifndef GM_CONFIG_KEYS_H
#define GM_CONFIG_KEYS_H

#include <stddef.h>

#include "agent/common/ini_value.h"
#include "agent/daemon/config.h"

#define GM_LOAD_RETRY_MAX_NS UINT64_C(600000000000)

const struct gm_ini_key *gm_config_keys(size_t *ret_n);

/* The keys of [model NAME], for people. */
extern const char gm_config_model_keys[];

/* Give a key of [model NAME] its value.  Returns as gm_ini_value_set(), and
 * -ENOENT: there is no such key. */
int gm_config_set_model(struct gm_config_model *model, const char *name,
			const char *value, char ret_right[GM_INI_RIGHT_BYTES]);

#endif
