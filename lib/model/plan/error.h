/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * error - describe to a person why a plan could not be made.
 *
 * An error has two separate sentences: @text names the error, and scripts
 * compare it; @remedy says what to do, and may change in any release.  Both are
 * one printable line, whatever bytes a file or a user supplied, so they can be
 * logged as they are.
 */
#ifndef GM_ERROR_H
#define GM_ERROR_H

#include <stddef.h>

struct gm_plan_error {
	int code;         /* negative errno */
	char text[8192];  /* what is wrong; names the file, row or entry */
	char remedy[192]; /* what to do, or empty */
};

/*
 * gm_error_set - describe a failure
 *
 * err		may be NULL: the caller does not need the text
 * code		negative errno
 * remedy	what to do, or NULL
 *
 * Returns	@code
 * Threads	any, one per @err
 */
int gm_error_set(struct gm_plan_error *err, int code, const char *remedy,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Both sentences as one of at most @bytes, NUL included: the text's share is
 * less where they do not fit. */
void gm_error_explain(const struct gm_plan_error *err, char *ret_text,
		      size_t bytes);

/* Describe a failure by a sentence of lib/model/checkpoint, which ends with
 * "; " and the remedy; empty: for want of memory.  Returns @code. */
int gm_error_of_sentence(struct gm_plan_error *err, int code,
			 const char *sentence);

/* Describe want of memory.  Returns -ENOMEM. */
int gm_error_no_memory(struct gm_plan_error *err);

/* Describe a model without layers.  Returns -EINVAL. */
int gm_error_no_layers(struct gm_plan_error *err);

/* Describe sums of 2^64 or more.  They return -EOVERFLOW. */
int gm_error_large_plan(struct gm_plan_error *err);
int gm_error_large_cache(struct gm_plan_error *err);

/* Describe one with more than GM_LAYERS_MAX.  Returns -E2BIG. */
int gm_error_many_layers(struct gm_plan_error *err);

#endif
