/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* list - ask the agent for all items of a list. */
#ifndef GM_LIST_H
#define GM_LIST_H

#include "gpumap.h"

/* List all of a kind.  Returns how many, with a list to free(), or a negative
 * errno.  More may exist by now.  Cost: two round trips on the control
 * socket. */
int gm_list_session(struct gpumap *map, struct gpumap_session_info **ret_list);
int gm_list_share(struct gpumap *map, struct gpumap_share_info **ret_list);
int gm_list_usage(struct gpumap *map, struct gpumap_usage **ret_list);
int gm_list_reservation(struct gpumap *map,
			struct gpumap_reservation **ret_list);
int gm_list_wait(struct gpumap *map, struct gpumap_wait_info **ret_list);

#endif
