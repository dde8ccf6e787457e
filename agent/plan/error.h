/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * error - why a plan could not be made, for a person.
 *
 * Two sentences, kept apart: @text says what is wrong and is compared by
 * scripts, @remedy says what to do about it and may get better words in any
 * release.  Both are one printable line whatever a file or a user put into
 * them, so they can go to a log as they are.
 */
#ifndef GM_ERROR_H
#define GM_ERROR_H

struct gm_plan_error {
	int code;         /* negative errno */
	char text[8192];  /* what is wrong; names the file, row or entry */
	char remedy[192]; /* what to do, or empty */
};

/*
 * gm_error_set - describe a failure
 *
 * err		may be NULL: then nobody wants to know
 * code		negative errno
 * remedy	what to do, or NULL
 *
 * Returns	@code
 * Threads	any, one per @err
 */
int gm_error_set(struct gm_plan_error *err, int code, const char *remedy,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The same for want of memory.  Returns -ENOMEM. */
int gm_error_no_memory(struct gm_plan_error *err);

/* And for a model of no layers.  Returns -EINVAL. */
int gm_error_no_layers(struct gm_plan_error *err);

#endif
