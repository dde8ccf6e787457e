/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/ctl/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gm_words_add(struct gm_words *words, const char *format, ...)
{
	char **v = reallocarray(words->v, words->n + 2, sizeof(*v));
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (v == NULL || vasprintf(&text, format, args) < 0)
		exit(gm_ctl_failed("no memory for a list of words"));
	va_end(args);
	words->v = v;
	v[words->n++] = text;
	v[words->n] = NULL;
}

void gm_words_free(struct gm_words *words)
{
	for (uint32_t i = 0; i < words->n; i++)
		free(words->v[i]);
	free(words->v);
	*words = (struct gm_words){ 0 };
}

json_t *gm_words_json(const char *const *words, uint32_t n)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, gm_ctl_text_json(words[i]));
	return list;
}

json_t *gm_words_env_json(const char *const *words, uint32_t n)
{
	json_t *object = json_object();

	for (uint32_t i = 0; i < n; i++) {
		size_t length = strcspn(words[i], "=");

		json_object_setn_new(object, words[i], length,
				     gm_ctl_text_json(words[i] + length + 1));
	}
	return object;
}

void gm_words_print_env(const char *word)
{
	int n = (int)strcspn(word, "=") + 1;

	printf("%.*s", n, word);
	gm_ctl_print_word(word + n);
	putchar('\n');
}
