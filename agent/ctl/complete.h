/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * complete - how a command line of gpumapctl can go on.
 *
 * The answer's first line says what stands in the place: words, which follow,
 * each with a tab and a remark behind it; files; folders; or another program's
 * command line, which begins with the word of the number behind "command".
 */
#ifndef GM_CTL_COMPLETE_H
#define GM_CTL_COMPLETE_H

#include "agent/ctl/commands.h"

/* The line up to the word that is completed. */
struct gm_ctl_line {
	struct gm_ctl ctl;                  /* its instance, and its operands */
	const struct gm_command *command;   /* NULL: it has none yet */
	const char *first;                  /* the command's first word */
	const struct gm_ctl_option *option; /* whose value is completed */
	const char *head; /* the word, of which this is not completed */
	size_t n_head;
	const char *word; /* and this is */
};

/* Print @text, and @about it, if the word can become @text.  Text that could
 * move a terminal's cursor is left out. */
void gm_ctl_offer(const struct gm_ctl_line *line, const char *text,
		  const char *about);

/* Offer what the running agent has; nothing where none is.  @kind: MAP, MASK,
 * MESH, SHARE, ROW, GROUP of the mesh that is the first operand; NODE and
 * NODES of its cluster, and MODEL of these. */
void gm_ctl_offer_names(struct gm_ctl_line *line, const char *kind);

#endif
