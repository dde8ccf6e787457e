/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * cluster_hold - a process of our own that holds a gang for a command.
 *
 * A gang lives as long as its connection to gpumap-sync.  The command is to
 * have the caller's process, and no descriptor that its children could keep, so
 * another process has the connection: no child of the command, without a
 * terminal, deaf to all signals but SIGKILL.  The process ends with the
 * command, and the gang with both.
 */
#ifndef GM_CTL_CLUSTER_HOLD_H
#define GM_CTL_CLUSTER_HOLD_H

#include <gpumap/sync.h>

#include <stdbool.h>

#define GM_CLUSTER_HOLD_WHY 512

struct gm_cluster_hold {
	const char *path;    /* of gpumap-sync's socket; NULL: the usual one */
	const char *command; /* its name, in sentences */
	const char *folder;  /* to remove at the end, with the files in it */
	bool stops;          /* the command, when the gang is lost */
	const struct gpumap_gang_request *request;
};

/*
 * gm_cluster_hold - start the process, and wait until it has the gang
 *
 * The command will be this process.
 *
 * ret_why	what was wrong
 *
 * Returns	0, what gpumap_sync_open() or gpumap_gang_reserve() returned in
 *		the other process, or a negative errno of its start
 */
int gm_cluster_hold(const struct gm_cluster_hold *hold,
		    char ret_why[GM_CLUSTER_HOLD_WHY]);

/* Remove the files in a folder, and the folder. */
void gm_cluster_hold_remove(const char *folder);

#endif
