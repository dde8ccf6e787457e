/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* words - lists of words: a command line, or variables as "NAME=VALUE". */
#ifndef GM_CTL_WORDS_H
#define GM_CTL_WORDS_H

#include "agent/ctl/ctl.h"

/* Words, with a NULL behind the last. */
struct gm_words {
	char **v;
	uint32_t n;
};

/* Append a word.  Ends the process where there is no memory for it. */
void gm_words_add(struct gm_words *words, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void gm_words_free(struct gm_words *words);

/* @n of them as a list; and as an object, those that are variables. */
json_t *gm_words_json(const char *const *words, uint32_t n);
json_t *gm_words_env_json(const char *const *words, uint32_t n);

/* Print a variable so that a shell can read it. */
void gm_words_print_env(const char *word);

#endif
